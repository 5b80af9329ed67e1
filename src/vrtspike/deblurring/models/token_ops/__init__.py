"""Layers that work on every token alone and keep nothing but their input for the backward pass."""

from __future__ import annotations

from vrtspike.deblurring.models.token_ops.choice import has_kernels
from vrtspike.deblurring.models.token_ops.feed_forward import normalised_geglu
from vrtspike.deblurring.models.token_ops.linear import normalised_linear
from vrtspike.deblurring.models.token_ops.maps import layout
from vrtspike.deblurring.models.token_ops.residual import (
    add_feed_forward,
    add_linear,
    fuse,
    project_normalised,
)
from vrtspike.deblurring.models.token_ops.triton_output import triton_output
from vrtspike.deblurring.models.token_ops.triton_projections import triton_projections

__all__ = [
    "add_feed_forward",
    "add_linear",
    "fuse",
    "has_kernels",
    "layout",
    "normalised_geglu",
    "normalised_linear",
    "project_normalised",
    "triton_output",
    "triton_projections",
]
