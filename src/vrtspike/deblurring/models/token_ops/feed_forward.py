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

from vrtspike.deblurring.models.layers import GEGLU
from vrtspike.deblurring.models.mixed_precision import (
    autocast_dtype,
    product_over_rows,
    without_autocast,
)
from vrtspike.deblurring.models.token_ops.choice import has_gate
from vrtspike.deblurring.models.token_ops.pointwise import (
    gate,
    gate_backward,
    normalise,
    normalise_backward,
    pieces,
)
from vrtspike.deblurring.models.token_ops.triton_gate import triton_gate, triton_gate_backward


def gated(x: Tensor, mlp: GEGLU, *, keep_hidden: bool) -> Tensor:
    """``mlp(x)``, its gate by an own kernel where there is one.

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
    hidden = functional.linear(x.flatten(0, -2), weight)
    fused: Tensor = mlp.fc2(triton_gate(hidden, bias))
    return fused.view(*x.shape[:-1], -1)


def normalised_geglu(x: Tensor, norm: nn.LayerNorm | None, mlp: GEGLU) -> Tensor:
    """``mlp(norm(x))``, or ``mlp(x)`` without a norm, recomputed in the backward pass.

    Args:
        x: (..., C).
        norm: layer norm over the channels with the default epsilon.
        mlp: the feed-forward layer.

    Returns:
        (..., channels of the result), in the type autocast asks for.
    """
    dtype = autocast_dtype(x)
    weights = (mlp.fc11.weight, mlp.fc11.bias, mlp.fc12.weight, mlp.fc12.bias)
    scale_and_shift = (None, None) if norm is None else (norm.weight, norm.bias)
    out = _forward(
        x.flatten(0, -2),
        *scale_and_shift,
        *weights,
        mlp.fc2.weight,
        mlp.fc2.bias,
        dtype,
        # Asked here: a trial of kernels needs autograd, which does not look into an operation.
        has_gate(x.device, dtype),
    )
    return out.view(*x.shape[:-1], -1)


@torch.library.custom_op("vrtspike::normalised_geglu", mutates_args=())
def _forward(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    w11: Tensor,
    b11: Tensor,
    w12: Tensor,
    b12: Tensor,
    w2: Tensor,
    b2: Tensor,
    dtype: torch.dtype,
    own: bool,
) -> Tensor:
    first, first_bias = torch.cat((w11, w12)).to(dtype), torch.cat((b11, b12))
    last, last_bias = w2.to(dtype), b2.to(dtype)
    out = x.new_empty(x.shape[0], w2.shape[0], dtype=dtype)
    with without_autocast(x):
        for part in pieces(x.shape[0], w11.shape[0], x.device):
            normed = x[part].to(dtype)
            if scale is not None and shift is not None:
                normed, _, _ = normalise(x[part], scale, shift, dtype)
            if own:
                product = triton_gate(normed @ first.T, first_bias)
            else:
                product = gate(functional.linear(normed, first, first_bias.to(dtype)))
            out[part] = functional.linear(product, last, last_bias)
    return out


@_forward.register_fake
def _(x: Tensor, *rest: Any) -> Tensor:  # noqa: ANN401
    *_, w2, _, dtype, _ = rest
    return x.new_empty(x.shape[0], w2.shape[0], dtype=dtype)


@torch.library.custom_op("vrtspike::normalised_geglu_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    w11: Tensor,
    b11: Tensor,
    w12: Tensor,
    b12: Tensor,
    w2: Tensor,
    dtype: torch.dtype,
    own: bool,
) -> list[Tensor]:
    """Gradients of x, (w11; w12), (b11; b12), w2, b2 and, with a norm, of scale and shift."""
    first, first_bias = torch.cat((w11, w12)).to(dtype), torch.cat((b11, b12))
    last = w2.to(dtype)
    sums = torch.promote_types(dtype, torch.float32)
    grad_x = torch.empty_like(x)
    grad_norm = x.new_zeros(2, x.shape[1], dtype=sums)
    grad_first = torch.zeros_like(first, dtype=sums)
    grad_first_bias = torch.zeros_like(first_bias, dtype=sums)
    grad_last = torch.zeros_like(last, dtype=sums)
    grad_last_bias = x.new_zeros(w2.shape[0], dtype=sums)
    for part in pieces(x.shape[0], w11.shape[0], x.device):
        rows, g = x[part], grad[part]
        normed, mean, rstd = rows.to(dtype), None, None
        if scale is not None and shift is not None:
            normed, mean, rstd = normalise(rows, scale, shift, dtype)
        if own:
            hidden = normed @ first.T
            product, grad_hidden, for_bias = triton_gate_backward(g @ last, hidden, first_bias)
        else:
            hidden = functional.linear(normed, first, first_bias.to(dtype))
            product, grad_hidden = gate_backward(g @ last, hidden)
            for_bias = grad_hidden.sum(0, dtype=sums)
        grad_last += product_over_rows(g, product, sums)
        grad_last_bias += g.sum(0, dtype=sums)
        grad_first += product_over_rows(grad_hidden, normed, sums)
        grad_first_bias += for_bias
        grad_rows = grad_hidden @ first
        if scale is not None and mean is not None and rstd is not None:
            grad_rows, *for_norm = normalise_backward(grad_rows, rows, mean, rstd, scale)
            grad_norm += torch.stack(for_norm)
        grad_x[part] = grad_rows
    return [
        grad_x,
        grad_first.to(w11.dtype),
        grad_first_bias.to(b11.dtype),
        grad_last.to(w2.dtype),
        grad_last_bias.to(b11.dtype),
        *(() if scale is None else (row.to(scale.dtype, copy=True) for row in grad_norm)),
    ]


@_backward.register_fake
def _(grad: Tensor, x: Tensor, *rest: Any) -> list[Tensor]:  # noqa: ANN401
    scale, shift, w11, b11, _, _, w2, _, _ = rest
    first, first_bias = (
        w11.new_empty(2 * w11.shape[0], w11.shape[1]),
        b11.new_empty(2 * b11.numel()),
    )
    own = [torch.empty_like(t) for t in (scale, shift) if t is not None]
    last_bias = b11.new_empty(grad.shape[1])
    return [torch.empty_like(x), first, first_bias, torch.empty_like(w2), last_bias, *own]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    *tensors, _, ctx.dtype, ctx.own = inputs
    ctx.save_for_backward(*tensors)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    grads = _backward(grad, *ctx.saved_tensors, ctx.dtype, ctx.own)
    x, first, first_bias, last, last_bias, *for_norm = grads
    scale, shift = for_norm or (None, None)
    w11, w12 = first.chunk(2)
    b11, b12 = first_bias.chunk(2)
    return x, scale, shift, w11, b11, w12, b12, last, last_bias, None, None


_forward.register_autograd(_grads, setup_context=_save)
