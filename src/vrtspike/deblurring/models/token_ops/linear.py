"""Linear layer of normalised tokens that keeps nothing but its input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import (
    autocast_dtype,
    product_over_rows,
    without_autocast,
)
from vrtspike.deblurring.models.token_ops.choice import has_kernels
from vrtspike.deblurring.models.token_ops.input_projections import triton_projections
from vrtspike.deblurring.models.token_ops.maps import flat_layout
from vrtspike.deblurring.models.token_ops.pointwise import normalise, normalise_backward, pieces


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
        streams, projected, _ = triton_projections(x.unsqueeze(3), norm, layer, None, None, maps)
        return streams[0].squeeze(3), projected.unflatten(1, x.shape[1:3])
    projected = normalised_linear(x.flatten(1, 2), norm, layer, None, x.shape[1] * x.shape[2])
    return x, projected.unflatten(1, x.shape[1:3])


def normalised_linear(
    x: Tensor, norm: nn.LayerNorm, layer: nn.Linear, code: Tensor | None, length: int
) -> Tensor:
    """``layer(pad(norm(x)) + code)``, recomputed in the backward pass.

    Args:
        x: (B, L, C).
        norm: layer norm over the channels with the default epsilon.
        layer: C to O channels, with a bias.
        code: (M, C) added to the normalised tokens, token i gets row i modulo M; or None. It is
            a constant and gets no gradient.
        length: tokens of the result; beyond L the normalised tokens are zeros.

    Returns:
        (B, length, O), in the type autocast asks for.
    """
    return _forward(
        x, norm.weight, norm.bias, layer.weight, layer.bias, code, length, autocast_dtype(x)
    )


def _input(x: Tensor, code: Tensor | None, part: slice) -> Tensor:
    """Add the code of the tokens in ``part`` to their normalised values."""
    if code is None:
        return x
    rows = torch.arange(part.start, part.stop, device=x.device) % code.shape[0]
    return x + code.index_select(0, rows).to(x.dtype)


@torch.library.custom_op("vrtspike::normalised_linear", mutates_args=())
def _forward(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    weight: Tensor,
    bias: Tensor,
    code: Tensor | None,
    length: int,
    dtype: torch.dtype,
) -> Tensor:
    out = x.new_empty(x.shape[0], length, weight.shape[0], dtype=dtype)
    matrix, vector = weight.to(dtype), bias.to(dtype)
    with without_autocast(x):
        for sample, target in zip(x, out, strict=True):
            for part in pieces(x.shape[1], weight.shape[0], x.device):
                normed, _, _ = normalise(sample[part], scale, shift, dtype)
                torch.addmm(vector, _input(normed, code, part), matrix.T, out=target[part])
            beyond = slice(x.shape[1], length)
            nothing = x.new_zeros(length - x.shape[1], x.shape[2], dtype=dtype)
            target[beyond] = functional.linear(_input(nothing, code, beyond), matrix, vector)
    return out


@_forward.register_fake
def _(x: Tensor, *rest: Any) -> Tensor:  # noqa: ANN401
    _, _, weight, _, _, length, dtype = rest
    return x.new_empty(x.shape[0], length, weight.shape[0], dtype=dtype)


@torch.library.custom_op("vrtspike::normalised_linear_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    weight: Tensor,
    code: Tensor | None,
    dtype: torch.dtype,
) -> list[Tensor]:
    """Gradients of x, scale, shift, weight and bias."""
    matrix = weight.to(dtype)
    exact = torch.promote_types(dtype, torch.float32)
    grad_x = torch.empty_like(x)
    grad_scale, grad_shift = (torch.zeros_like(t, dtype=exact) for t in (scale, shift))
    grad_weight = torch.zeros_like(weight, dtype=exact)
    grad_bias = x.new_zeros(weight.shape[0], dtype=exact)
    beyond = slice(x.shape[1], grad.shape[1])
    nothing = x.new_zeros(beyond.stop - beyond.start, x.shape[2], dtype=dtype)
    for sample, g_sample, target in zip(x, grad, grad_x, strict=True):
        for part in pieces(x.shape[1], weight.shape[0], x.device):
            rows, g = sample[part], g_sample[part]
            normed, mean, rstd = normalise(rows, scale, shift, dtype)
            grad_weight += product_over_rows(g, _input(normed, code, part), exact)
            grad_bias += g.sum(0, dtype=exact)
            target[part], for_scale, for_shift = normalise_backward(
                g @ matrix, rows, mean, rstd, scale
            )
            grad_scale += for_scale
            grad_shift += for_shift
        g = g_sample[beyond]
        grad_bias += g.sum(0, dtype=exact)
        if code is not None:
            grad_weight += product_over_rows(g, _input(nothing, code, beyond), exact)
    return [
        grad_x,
        grad_scale.to(scale.dtype),
        grad_shift.to(shift.dtype),
        grad_weight.to(weight.dtype),
        grad_bias.to(weight.dtype),
    ]


@_backward.register_fake
def _(grad: Tensor, x: Tensor, *rest: Any) -> list[Tensor]:  # noqa: ANN401
    scale, shift, weight, _, _ = rest
    own = [torch.empty_like(t) for t in (x, scale, shift, weight)]
    return [*own, weight.new_empty(grad.shape[2])]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    x, scale, shift, weight, _, code, _, ctx.dtype = inputs
    ctx.save_for_backward(x, scale, shift, weight, code)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    return (*_backward(grad.contiguous(), *ctx.saved_tensors, ctx.dtype), None, None, None)


_forward.register_autograd(_grads, setup_context=_save)
