"""Layers that work on every token alone and keep nothing but their input for the backward pass."""

from __future__ import annotations

from vrtspike.deblurring.models.token_ops.choice import has_kernels
from vrtspike.deblurring.models.token_ops.feed_forward import gated, normalised_geglu
from vrtspike.deblurring.models.token_ops.input_projections import triton_projections
from vrtspike.deblurring.models.token_ops.joined import triton_joined
from vrtspike.deblurring.models.token_ops.linear import normalised_linear, project_normalised
from vrtspike.deblurring.models.token_ops.maps import Layout, layout
from vrtspike.deblurring.models.token_ops.output_projection import triton_output
from vrtspike.deblurring.models.token_ops.residual import (
    add_feed_forward,
    add_linear,
    add_linear_and_feed_forward,
    joins,
)

__all__ = [
    "Layout",
    "add_feed_forward",
    "add_linear",
    "add_linear_and_feed_forward",
    "gated",
    "has_kernels",
    "joins",
    "layout",
    "normalised_geglu",
    "normalised_linear",
    "project_normalised",
    "triton_joined",
    "triton_output",
    "triton_projections",
]
