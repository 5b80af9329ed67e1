"""Gated feed-forward layer that keeps nothing but its input.

Plain layers keep six tensors of the hidden width for the backward pass. Here the backward pass
makes them again, one piece of tokens at a time; on a CPU a piece stays in the cache, so that making
them again is cheaper than reading them back from memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import product_over_rows, without_autocast
from vrtspike.deblurring.models.ops.token_layout import EPSILON

# Values of the widest intermediate result in one piece. On a CPU a piece stays in the cache
# (1 MiB in float32); a GPU has no such cache, and few large pieces keep it busy.
_PIECE_CPU = 1 << 18
_PIECE_CUDA = 1 << 28


@torch.compiler.disable
def recomputed_geglu(
    x: Tensor,
    norm: nn.LayerNorm | None,
    layers: tuple[nn.Linear, nn.Linear, nn.Linear],
    dtype: torch.dtype,
) -> Tensor:
    """``out(GELU(gate(norm(x))) * value(norm(x)))``, hidden values recomputed.

    Args:
        x: (..., C).
        norm: layer norm over the channels with the default epsilon, or None.
        layers: gate, value and out.
        dtype: type of the products.

    Returns:
        (..., channels of the result) in that type.
    """
    scale_and_shift = (None, None) if norm is None else (norm.weight, norm.bias)
    parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
    out: Tensor = _GEGLU.apply(x.flatten(0, -2), *scale_and_shift, *parameters, dtype)
    return out.unflatten(0, x.shape[:-1])


class _GEGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:  # noqa: ANN401
        *tensors, ctx.dtype = inputs
        ctx.save_for_backward(*tensors)
        x, scale, shift, *parameters = tensors
        first, first_bias, last, last_bias = _joined(parameters, ctx.dtype)
        out = x.new_empty(x.shape[0], last.shape[0], dtype=ctx.dtype)
        with without_autocast(x):
            for part in _pieces(x, len(first)):
                normed, _, _ = _normalise(x[part], scale, shift, ctx.dtype)
                gate, value = functional.linear(normed, first, first_bias).chunk(2, dim=1)
                out[part] = functional.linear(functional.gelu(gate) * value, last, last_bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, scale, shift, *parameters = ctx.saved_tensors
        first, first_bias, last, _ = _joined(parameters, ctx.dtype)
        exact = torch.promote_types(ctx.dtype, torch.float32)
        grad_x, grad_norm = torch.empty_like(x), x.new_zeros(2, x.shape[1], dtype=exact)
        sums = [torch.zeros_like(t, dtype=exact) for t in (first, first_bias, last, last[:, 0])]
        for part in _pieces(x, len(first)):
            g = grad[part]
            normed, mean, rstd = _normalise(x[part], scale, shift, ctx.dtype)
            gate, value = functional.linear(normed, first, first_bias).chunk(2, dim=1)
            gelu = functional.gelu(gate)
            grad_product = g @ last
            grad_gate = torch.ops.aten.gelu_backward(grad_product * value, gate)
            grad_hidden = torch.cat((grad_gate, grad_product * gelu), dim=1)
            sums[0] += product_over_rows(grad_hidden, normed, exact)
            sums[1] += grad_hidden.sum(0, dtype=exact)
            sums[2] += product_over_rows(g, gelu * value, exact)
            sums[3] += g.sum(0, dtype=exact)
            grad_rows = grad_hidden @ first
            if scale is not None:
                grad_rows, *for_norm = torch.ops.aten.native_layer_norm_backward(
                    grad_rows.to(exact),
                    x[part].to(exact),
                    x.shape[1:],
                    mean,
                    rstd,
                    scale.to(exact),
                    torch.zeros_like(shift, dtype=exact),
                    [True, True, True],
                )
                grad_norm += torch.stack(for_norm)
            grad_x[part] = grad_rows
        (w11, w12), (b11, b12) = sums[0].chunk(2), sums[1].chunk(2)
        own = [None, None] if scale is None else [t.to(scale.dtype) for t in grad_norm]
        found = (w11, b11, w12, b12, *sums[2:])
        return grad_x, *own, *(t.to(parameters[0].dtype) for t in found), None


def _joined(parameters: list[Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weight and bias of gate and value in one, and those of the last layer."""
    w11, b11, w12, b12, w2, b2 = (t.to(dtype) for t in parameters)
    return torch.cat((w11, w12)), torch.cat((b11, b12)), w2, b2


def _pieces(x: Tensor, width: int) -> Iterator[slice]:
    """Consecutive parts of the rows whose intermediate results are ``width`` wide."""
    step = max((_PIECE_CUDA if x.is_cuda else _PIECE_CPU) // width, 1)
    for start in range(0, x.shape[0], step):
        yield slice(start, start + step)


def _normalise(
    x: Tensor, scale: Tensor | None, shift: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm in float32 or better, in ``dtype``; mean and reciprocal standard deviation."""
    if scale is None or shift is None:
        return x.to(dtype), x, x
    exact = torch.promote_types(x.dtype, torch.float32)
    normed, mean, rstd = torch.native_layer_norm(
        x.to(exact), x.shape[1:], scale.to(exact), shift.to(exact), EPSILON
    )
    return normed.to(dtype), mean, rstd
