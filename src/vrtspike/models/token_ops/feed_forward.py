"""Normalised GEGLU feed-forward layer that keeps nothing but its input.

The plain modules keep six tensors of the hidden width for the backward pass. Here the backward
pass makes them again, one piece of tokens at a time; on a CPU a piece stays in the cache, so that
making them again is cheaper than reading them back from memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.models.layers import GEGLU
from vrtspike.models.token_ops.pointwise import (
    autocast_dtype,
    gate,
    gate_backward,
    normalise,
    normalise_backward,
    pieces,
)


def normalised_geglu(x: Tensor, norm: nn.LayerNorm, mlp: GEGLU) -> Tensor:
    """``mlp(norm(x))``, recomputed in the backward pass.

    Args:
        x: (..., C).
        norm: layer norm over the channels with the default epsilon.
        mlp: the feed-forward layer.

    Returns:
        (..., channels of the result), in the type autocast asks for.
    """
    dtype = autocast_dtype(x)
    weights = (mlp.fc11.weight, mlp.fc11.bias, mlp.fc12.weight, mlp.fc12.bias)
    out = _forward(
        x.flatten(0, -2), norm.weight, norm.bias, *weights, mlp.fc2.weight, mlp.fc2.bias, dtype
    )
    return out.view(*x.shape[:-1], -1)


@torch.library.custom_op("vrtspike::normalised_geglu", mutates_args=())
def _forward(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    w11: Tensor,
    b11: Tensor,
    w12: Tensor,
    b12: Tensor,
    w2: Tensor,
    b2: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    first, first_bias = torch.cat((w11, w12)).to(dtype), torch.cat((b11, b12)).to(dtype)
    last, last_bias = w2.to(dtype), b2.to(dtype)
    out = x.new_empty(x.shape[0], w2.shape[0], dtype=dtype)
    with torch.autocast(x.device.type, enabled=False):
        for part in pieces(x.shape[0], w11.shape[0], x.device):
            normed, _, _ = normalise(x[part], scale, shift, dtype)
            hidden = functional.linear(normed, first, first_bias)
            out[part] = functional.linear(gate(hidden), last, last_bias)
    return out


@_forward.register_fake
def _(x: Tensor, *rest: Any) -> Tensor:  # noqa: ANN401
    *_, w2, _, dtype = rest
    return x.new_empty(x.shape[0], w2.shape[0], dtype=dtype)


@torch.library.custom_op("vrtspike::normalised_geglu_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    w11: Tensor,
    b11: Tensor,
    w12: Tensor,
    b12: Tensor,
    w2: Tensor,
    dtype: torch.dtype,
) -> list[Tensor]:
    """Gradients of x, scale, shift, (w11; w12), (b11; b12), w2 and b2."""
    first, first_bias = torch.cat((w11, w12)).to(dtype), torch.cat((b11, b12)).to(dtype)
    last = w2.to(dtype)
    sums = torch.promote_types(dtype, torch.float32)
    grad_x = torch.empty_like(x)
    grad_scale, grad_shift = (torch.zeros_like(t, dtype=sums) for t in (scale, shift))
    grad_first = torch.zeros_like(first, dtype=sums)
    grad_first_bias = torch.zeros_like(first_bias, dtype=sums)
    grad_last = torch.zeros_like(last, dtype=sums)
    grad_last_bias = x.new_zeros(w2.shape[0], dtype=sums)
    for part in pieces(x.shape[0], w11.shape[0], x.device):
        rows, g = x[part], grad[part]
        normed, mean, rstd = normalise(rows, scale, shift, dtype)
        hidden = functional.linear(normed, first, first_bias)
        product, grad_hidden = gate_backward(g @ last, hidden)
        grad_last += g.T @ product
        grad_last_bias += g.sum(0)
        grad_first += grad_hidden.T @ normed
        grad_first_bias += grad_hidden.sum(0)
        grad_x[part], for_scale, for_shift = normalise_backward(
            grad_hidden @ first, rows, mean, rstd, scale
        )
        grad_scale += for_scale
        grad_shift += for_shift
    return [
        grad_x,
        grad_scale.to(scale.dtype),
        grad_shift.to(shift.dtype),
        grad_first.to(w11.dtype),
        grad_first_bias.to(b11.dtype),
        grad_last.to(w2.dtype),
        grad_last_bias.to(b11.dtype),
    ]


@_backward.register_fake
def _(grad: Tensor, x: Tensor, *rest: Any) -> list[Tensor]:  # noqa: ANN401
    scale, shift, w11, b11, _, _, w2, _ = rest
    first, first_bias = (
        w11.new_empty(2 * w11.shape[0], w11.shape[1]),
        b11.new_empty(2 * b11.numel()),
    )
    own = [torch.empty_like(t) for t in (x, scale, shift)]
    return [*own, first, first_bias, torch.empty_like(w2), b11.new_empty(grad.shape[1])]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    *tensors, _, ctx.dtype = inputs
    ctx.save_for_backward(*tensors)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    x, scale, shift, first, first_bias, last, last_bias = _backward(
        grad, *ctx.saved_tensors, ctx.dtype
    )
    w11, w12 = first.chunk(2)
    b11, b12 = first_bias.chunk(2)
    return x, scale, shift, w11, b11, w12, b12, last, last_bias, None


_forward.register_autograd(_grads, setup_context=_save)
