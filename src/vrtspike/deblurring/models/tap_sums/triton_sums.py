"""Sums of taps by our own Triton kernels, for CUDA: each tensor is read and written once."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_launch import on_device_of

SUMS = MappingProxyType({"BLOCK": 64, "BLOCK_C": 32, "num_warps": 4})


def triton_sum(
    taps: Tensor, bias: Tensor | None, residual: Tensor | None, *, slope: float | None
) -> Tensor:
    """:func:`defined_sum` by own kernels, in the wider type of taps and residual."""
    out: Tensor = _sum(taps, bias, residual, slope, 3)
    return out


def triton_activation(x: Tensor, bias: Tensor, *, slope: float) -> Tensor:
    """:func:`defined_activation` of (N, H, W, C) by own kernels."""
    out: Tensor = _sum(x.unsqueeze(1), bias, None, slope, 1)
    return out.squeeze(1)


def _grid(taps: Tensor, count: int) -> tuple[int, int, int]:
    frames, pixels = math.prod(taps.shape[:2]), math.prod(taps.shape[2:-1])
    return -(-pixels // SUMS["BLOCK"]), -(-taps.shape[-1] // count // SUMS["BLOCK_C"]), frames


def _constants(
    taps: Tensor, count: int, slope: float | None, *, biased: bool, has_residual: bool
) -> dict[str, int | float | bool]:
    return {
        "C": taps.shape[-1] // count,
        "TAPS": count,
        "BIASED": biased,
        "RESIDUAL": has_residual,
        "RECTIFIED": slope is not None,
        "SLOPE": slope or 0.0,
        **SUMS,
    }


def _empty_out(taps: Tensor, residual: Tensor | None, count: int) -> Tensor:
    dtype = taps.dtype if residual is None else torch.promote_types(taps.dtype, residual.dtype)
    return taps.new_empty(*taps.shape[:-1], taps.shape[-1] // count, dtype=dtype)


@torch.library.custom_op("vrtspike::sum_of_taps", mutates_args=())
def _sum(
    taps: Tensor, bias: Tensor | None, residual: Tensor | None, slope: float | None, count: int
) -> Tensor:
    from vrtspike.deblurring.models.tap_sums.kernels import sum_kernel

    taps = taps.contiguous()
    out = _empty_out(taps, residual, count)
    biased, has_residual = bias is not None, residual is not None
    with on_device_of(taps):
        sum_kernel[_grid(taps, count)](
            taps,
            taps if bias is None else bias,
            taps if residual is None else residual.contiguous(),
            out,
            math.prod(taps.shape[2:-1]),
            taps.shape[1],
            **_constants(taps, count, slope, biased=biased, has_residual=has_residual),
        )
    return out


@_sum.register_fake
def _(
    taps: Tensor, bias: Tensor | None, residual: Tensor | None, slope: float | None, count: int
) -> Tensor:
    return _empty_out(taps, residual, count)


@torch.library.custom_op("vrtspike::sum_of_taps_backward", mutates_args=())
def _backward(
    grad: Tensor,
    out: Tensor,
    dtype: torch.dtype,
    biased: bool,
    has_residual: bool,
    slope: float | None,
    count: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of taps, of the residual if it is not ``grad``, and of the bias; else empty."""
    from vrtspike.deblurring.models.tap_sums.kernels import sum_gradient_kernel

    grad = grad.contiguous()
    apart = has_residual and slope is not None
    grad_taps, grad_residual, _ = _empty_grads(grad, out, dtype, count, apart=apart)
    grid = _grid(grad_taps, count)
    lines = grad.new_empty(grid[0] * grid[2] if biased else 0, out.shape[-1], dtype=torch.float32)
    with on_device_of(grad):
        sum_gradient_kernel[grid](
            grad,
            out,
            grad_taps,
            grad_residual,
            lines,
            math.prod(grad.shape[2:-1]),
            grad.shape[1],
            **_constants(grad_taps, count, slope, biased=biased, has_residual=has_residual),
        )
    return grad_taps, grad_residual, lines.sum(0)


def _empty_grads(
    grad: Tensor, out: Tensor, dtype: torch.dtype, count: int, *, apart: bool
) -> tuple[Tensor, Tensor, Tensor]:
    channels = out.shape[-1]
    return (
        grad.new_empty(*grad.shape[:-1], count * channels, dtype=dtype),
        torch.empty_like(grad) if apart else grad.new_empty(0),
        grad.new_empty(channels, dtype=torch.float32),
    )


@_backward.register_fake
def _(
    grad: Tensor,
    out: Tensor,
    dtype: torch.dtype,
    biased: bool,
    has_residual: bool,
    slope: float | None,
    count: int,
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_grads(grad, out, dtype, count, apart=has_residual and slope is not None)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    taps, bias, residual, ctx.slope, ctx.count = inputs
    ctx.dtype = taps.dtype
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.residual_dtype = None if residual is None else residual.dtype
    # What is not rectified needs no values, only their shape.
    kept = output.new_empty(output.shape[-1:]) if ctx.slope is None else output
    ctx.save_for_backward(kept)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    (out,) = ctx.saved_tensors
    biased, has_residual = ctx.bias_dtype is not None, ctx.residual_dtype is not None
    taps, apart, bias = _backward(grad, out, ctx.dtype, biased, has_residual, ctx.slope, ctx.count)
    residual = None
    if has_residual:
        residual = (grad if ctx.slope is None else apart).to(ctx.residual_dtype)
    return taps, bias.to(ctx.bias_dtype) if biased else None, residual, None, None


_sum.register_autograd(_grads, setup_context=_save)
