"""Layers that work on every token alone and keep nothing but their input for the backward pass."""

from __future__ import annotations

from vrtspike.models.token_ops.feed_forward import normalised_geglu
from vrtspike.models.token_ops.linear import normalised_linear

__all__ = ["normalised_geglu", "normalised_linear"]
