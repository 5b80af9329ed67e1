"""Normalised GEGLU feed-forward layer that keeps nothing but its input.

The plain modules keep six tensors of the hidden width for the backward pass. Here the backward
pass makes them again, one piece of tokens at a time; on a CPU a piece stays in the cache, so that
making them again is cheaper than reading them back from memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.models.layers import GEGLU

_EPSILON = 1e-5
# Values of the hidden layer in one piece; 1 MiB in float32.
_PIECE = 1 << 18
# A GPU has no such cache, and few large pieces keep it busy.
_PIECE_GPU = 1 << 27


def normalised_geglu(x: Tensor, norm: nn.LayerNorm, mlp: GEGLU) -> Tensor:
    """``mlp(norm(x))``, recomputed in the backward pass.

    Args:
        x: (..., C).
        norm: layer norm over the channels with the default epsilon.
        mlp: the feed-forward layer.

    Returns:
        (..., channels of the result), in the type autocast asks for.
    """
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    weights = (mlp.fc11.weight, mlp.fc11.bias, mlp.fc12.weight, mlp.fc12.bias)
    out = _forward(
        x.flatten(0, -2), norm.weight, norm.bias, *weights, mlp.fc2.weight, mlp.fc2.bias, dtype
    )
    return out.view(*x.shape[:-1], -1)


def _pieces(x: Tensor, hidden: int) -> Iterator[slice]:
    budget = _PIECE_GPU if x.is_cuda else _PIECE
    step = max(budget // hidden, 1)
    for start in range(0, x.shape[0], step):
        yield slice(start, start + step)


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
    for part in _pieces(x, w11.shape[0]):
        normed = functional.layer_norm(x[part], x.shape[1:], scale, shift, _EPSILON).to(dtype)
        gate, value = functional.linear(normed, first, first_bias).chunk(2, dim=1)
        out[part] = functional.linear(functional.gelu(gate) * value, last, last_bias)
    return out


@_forward.register_fake
def _(
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
    grad_scale, grad_shift = torch.zeros_like(scale), torch.zeros_like(shift)
    grad_first = torch.zeros_like(first, dtype=sums)
    grad_first_bias = torch.zeros_like(first_bias, dtype=sums)
    grad_last = torch.zeros_like(last, dtype=sums)
    grad_last_bias = x.new_zeros(w2.shape[0], dtype=sums)
    for part in _pieces(x, w11.shape[0]):
        rows, g = x[part], grad[part]
        normed, mean, rstd = torch.native_layer_norm(rows, x.shape[1:], scale, shift, _EPSILON)
        normed = normed.to(dtype)
        hidden = functional.linear(normed, first, first_bias)
        gate, value = hidden.chunk(2, dim=1)
        gated = functional.gelu(gate)
        grad_product = g @ last
        grad_last += g.T @ (gated * value)
        grad_last_bias += g.sum(0)
        grad_hidden = torch.cat(
            (torch.ops.aten.gelu_backward(grad_product * value, gate), grad_product * gated), dim=1
        )
        grad_first += grad_hidden.T @ normed
        grad_first_bias += grad_hidden.sum(0)
        grad_normed = (grad_hidden @ first).to(rows.dtype)
        piece = torch.ops.aten.native_layer_norm_backward(
            grad_normed, rows, x.shape[1:], mean, rstd, scale, shift, [True, True, True]
        )
        grad_x[part] = piece[0]
        grad_scale += piece[1]
        grad_shift += piece[2]
    return [
        grad_x,
        grad_scale,
        grad_shift,
        grad_first.to(w11.dtype),
        grad_first_bias.to(b11.dtype),
        grad_last.to(w2.dtype),
        grad_last_bias.to(b11.dtype),
    ]


@_backward.register_fake
def _(
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
    double = w11.new_empty(2 * w11.shape[0], w11.shape[1])
    return [
        torch.empty_like(x),
        torch.empty_like(scale),
        torch.empty_like(shift),
        double,
        b11.new_empty(2 * b11.shape[0]),
        torch.empty_like(w2),
        b11.new_empty(w2.shape[0]),
    ]


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
