"""Branches that are added to the residual stream, by our own kernels or by plain layers."""

from __future__ import annotations

from torch import Tensor, nn

from vrtspike.deblurring.models.layers import GEGLU, KEPT, Branch
from vrtspike.deblurring.models.token_ops.choice import has_kernels
from vrtspike.deblurring.models.token_ops.feed_forward import normalised_geglu
from vrtspike.deblurring.models.token_ops.triton_feed_forward import triton_feed_forward
from vrtspike.deblurring.models.token_ops.triton_projection import flat_layout, triton_output


def add_feed_forward(
    x: Tensor, norm: nn.LayerNorm, mlp: GEGLU, branch: Branch = KEPT, *, keep_hidden: bool
) -> Tensor:
    """``x + mlp(norm(x))``.

    Args:
        x: (B, ..., C), the residual stream.
        norm: layer norm over the channels with the default epsilon.
        mlp: the feed-forward layer, of C channels.
        branch: what stochastic depth leaves of it.
        keep_hidden: whether plain layers keep their hidden values for the backward pass. Our own
            kernels make them again, which is cheaper than reading them.
    """
    if has_kernels(x):
        return triton_feed_forward(x, norm, mlp, branch.factors)
    result = mlp(norm(x)) if keep_hidden else normalised_geglu(x, norm, mlp)
    return x + branch.scaled(result)


def add_linear(x: Tensor, layer: nn.Linear, y: Tensor) -> Tensor:
    """``x + layer(y)``, all (B, D, H, W, C)."""
    if has_kernels(x):
        return triton_output(x, layer, y.flatten(1, 3), None, flat_layout(x))
    return x + layer(y)
