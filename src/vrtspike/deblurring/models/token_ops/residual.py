"""Branches that are added to the residual stream, by our own kernels or by plain layers."""

from __future__ import annotations

from torch import Tensor, nn

from vrtspike.deblurring.models.layers import GEGLU, KEPT, Branch, FeedForward
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops.choice import has_kernels
from vrtspike.deblurring.models.token_ops.feed_forward import normalised_geglu
from vrtspike.deblurring.models.token_ops.joined import triton_joined
from vrtspike.deblurring.models.token_ops.launch import has_room
from vrtspike.deblurring.models.token_ops.maps import flat_layout
from vrtspike.deblurring.models.token_ops.output_projection import triton_output
from vrtspike.deblurring.models.token_ops.triton_feed_forward import triton_feed_forward


def add_feed_forward(
    x: Tensor,
    norm: nn.LayerNorm,
    mlp: GEGLU | FeedForward,
    branch: Branch = KEPT,
    *,
    keep_hidden: bool = True,
) -> Tensor:
    """``x + mlp(norm(x))``.

    Args:
        x: (B, ..., C), the residual stream.
        norm: layer norm over the channels with the default epsilon.
        mlp: the feed-forward layer, of C channels.
        branch: what stochastic depth leaves of it.
        keep_hidden: whether plain layers keep their hidden values for the backward pass; without a
            gate they do. Our own kernels make them again, which is cheaper than reading them.
    """
    if has_kernels(x):
        return triton_feed_forward(x, norm, mlp, branch.factors)
    if isinstance(mlp, FeedForward) or keep_hidden:
        return x + branch.scaled(mlp(norm(x)))
    return x + branch.scaled(normalised_geglu(x, norm, mlp))


def add_linear_and_feed_forward(
    x: Tensor,
    layer: nn.Linear,
    y: Tensor,
    norm: nn.LayerNorm,
    mlp: GEGLU | FeedForward,
) -> Tensor:
    """:func:`add_linear`, then :func:`add_feed_forward` with all of its branch."""
    if not joins(x):
        return add_feed_forward(add_linear(x, layer, y), norm, mlp)
    stream, rows = _as_maps(x, y)
    return triton_joined(stream, layer, rows, None, flat_layout(stream), norm, mlp).view(x.shape)


def joins(x: Tensor) -> bool:
    """Whether own kernels make a projection and the feed-forward layer after it at a time."""
    return has_kernels(x) and has_room(x.device, autocast_dtype(x))


def add_linear(x: Tensor, layer: nn.Linear, y: Tensor) -> Tensor:
    """``x + layer(y)``, all (B, ..., C)."""
    if has_kernels(x):
        stream, rows = _as_maps(x, y)
        return triton_output(stream, layer, rows, None, flat_layout(stream)).view(x.shape)
    return x + layer(y)


def _as_maps(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Stream (B, ..., C) and branch as own kernels take them: (B, L, 1, 1, C) and (B, L, C)."""
    stream = x.reshape(x.shape[0], -1, 1, 1, x.shape[-1])
    return stream, y.reshape(stream.shape).flatten(1, 3)
