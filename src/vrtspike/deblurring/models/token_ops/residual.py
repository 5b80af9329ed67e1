"""Branches that are added to the residual stream, by our own kernels or by plain layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.layers import GEGLU, KEPT, Branch, FeedForward
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops.choice import has_gate, has_kernels
from vrtspike.deblurring.models.token_ops.feed_forward import normalised_geglu
from vrtspike.deblurring.models.token_ops.linear import normalised_linear
from vrtspike.deblurring.models.token_ops.maps import flat_layout
from vrtspike.deblurring.models.token_ops.triton_feed_forward import triton_feed_forward
from vrtspike.deblurring.models.token_ops.triton_gate import triton_gate
from vrtspike.deblurring.models.token_ops.triton_output import triton_output
from vrtspike.deblurring.models.token_ops.triton_projections import triton_projections


def add_feed_forward(
    x: Tensor,
    norm: nn.LayerNorm,
    mlp: GEGLU | FeedForward,
    branch: Branch = KEPT,
    *,
    keep_hidden: bool,
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


def fuse(x: Tensor, mlp: GEGLU, *, keep_hidden: bool) -> Tensor:
    """``mlp(x)``: features side by side on the channels, (..., C), into one.

    Args:
        x: (..., C).
        mlp: the gated layer.
        keep_hidden: whether the hidden values are kept for the backward pass, or made again.
    """
    if not keep_hidden:
        return normalised_geglu(x, None, mlp)
    if not has_gate(x.device, autocast_dtype(x)):
        return mlp(x)
    weight = torch.cat((mlp.fc11.weight, mlp.fc12.weight))
    bias = torch.cat((mlp.fc11.bias, mlp.fc12.bias))
    hidden = functional.linear(x.flatten(0, -2), weight, bias)
    fused: Tensor = mlp.fc2(triton_gate(hidden))
    return fused.view(*x.shape[:-1], -1)


def project_normalised(x: Tensor, norm: nn.LayerNorm, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """``layer(norm(x))``, which keeps nothing but ``x``.

    Args:
        x: (B, T, P, C).
        norm: layer norm over the channels with the default epsilon.
        layer: C to O channels, with a bias.

    Returns:
        ``x`` itself, to be used from here on: own kernels add its gradient to that of the
        projection in the same pass; and the projection (B, T, P, O), in the type of autocast.
    """
    if has_kernels(x):
        maps = flat_layout(x.unsqueeze(3))
        through, projected, _ = triton_projections(x.unsqueeze(3), norm, layer, None, None, maps)
        return through.squeeze(3), projected.unflatten(1, x.shape[1:3])
    projected = normalised_linear(x.flatten(1, 2), norm, layer, None, x.shape[1] * x.shape[2])
    return x, projected.unflatten(1, x.shape[1:3])


def add_linear(x: Tensor, layer: nn.Linear, y: Tensor) -> Tensor:
    """``x + layer(y)``, all (B, ..., C)."""
    if has_kernels(x):
        stream = x.view(x.shape[0], -1, 1, 1, x.shape[-1])
        rows = y.reshape(stream.shape).flatten(1, 3)
        return triton_output(stream, layer, rows, None, flat_layout(stream)).view(x.shape)
    return x + layer(y)
