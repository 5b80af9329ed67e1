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
    taps: Tensor, bias: Tensor | None, residual: Tensor | None, *, rectified: bool
) -> Tensor:
    """:func:`defined_sum` by own kernels, in the wider type of taps and residual."""
    out: Tensor = _sum(taps, bias, residual, rectified)
    return out


def _grid(taps: Tensor) -> tuple[int, int, int]:
    frames, pixels = math.prod(taps.shape[:2]), math.prod(taps.shape[2:-1])
    return -(-pixels // SUMS["BLOCK"]), -(-taps.shape[-1] // 3 // SUMS["BLOCK_C"]), frames


def _constants(
    taps: Tensor, *, biased: bool, has_residual: bool, rectified: bool
) -> dict[str, int | bool]:
    shown = {"BIASED": biased, "RESIDUAL": has_residual, "RECTIFIED": rectified}
    return {"C": taps.shape[-1] // 3, **shown, **SUMS}


def _empty_out(taps: Tensor, residual: Tensor | None) -> Tensor:
    dtype = taps.dtype if residual is None else torch.promote_types(taps.dtype, residual.dtype)
    return taps.new_empty(*taps.shape[:-1], taps.shape[-1] // 3, dtype=dtype)


@torch.library.custom_op("vrtspike::sum_of_taps", mutates_args=())
def _sum(taps: Tensor, bias: Tensor | None, residual: Tensor | None, rectified: bool) -> Tensor:
    from vrtspike.deblurring.models.tap_sums.kernels import sum_kernel

    taps = taps.contiguous()
    out = _empty_out(taps, residual)
    with on_device_of(taps):
        sum_kernel[_grid(taps)](
            taps,
            taps if bias is None else bias,
            taps if residual is None else residual.contiguous(),
            out,
            math.prod(taps.shape[2:-1]),
            taps.shape[1],
            **_constants(
                taps,
                biased=bias is not None,
                has_residual=residual is not None,
                rectified=rectified,
            ),
        )
    return out


@_sum.register_fake
def _(taps: Tensor, bias: Tensor | None, residual: Tensor | None, rectified: bool) -> Tensor:
    return _empty_out(taps, residual)


@torch.library.custom_op("vrtspike::sum_of_taps_backward", mutates_args=())
def _backward(
    grad: Tensor, out: Tensor, dtype: torch.dtype, biased: bool, has_residual: bool, rectified: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of taps, of the residual if it is not ``grad``, and of the bias; else empty."""
    from vrtspike.deblurring.models.tap_sums.kernels import sum_gradient_kernel

    grad = grad.contiguous()
    grad_taps, grad_residual, _ = _empty_grads(grad, out, dtype, has_residual and rectified)
    grid = _grid(grad_taps)
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
            **_constants(grad_taps, biased=biased, has_residual=has_residual, rectified=rectified),
        )
    return grad_taps, grad_residual, lines.sum(0)


def _empty_grads(
    grad: Tensor, out: Tensor, dtype: torch.dtype, apart: bool
) -> tuple[Tensor, Tensor, Tensor]:
    channels = out.shape[-1]
    return (
        grad.new_empty(*grad.shape[:-1], 3 * channels, dtype=dtype),
        torch.empty_like(grad) if apart else grad.new_empty(0),
        grad.new_empty(channels, dtype=torch.float32),
    )


@_backward.register_fake
def _(
    grad: Tensor, out: Tensor, dtype: torch.dtype, biased: bool, has_residual: bool, rectified: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_grads(grad, out, dtype, has_residual and rectified)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    taps, bias, residual, ctx.rectified = inputs
    ctx.dtype = taps.dtype
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.residual_dtype = None if residual is None else residual.dtype
    ctx.save_for_backward(output if ctx.rectified else output.new_empty(output.shape[-1:]))


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    (out,) = ctx.saved_tensors
    biased, has_residual = ctx.bias_dtype is not None, ctx.residual_dtype is not None
    taps, apart, bias = _backward(grad, out, ctx.dtype, biased, has_residual, ctx.rectified)
    residual = None
    if has_residual:
        residual = (apart if ctx.rectified else grad).to(ctx.residual_dtype)
    return taps, bias.to(ctx.bias_dtype) if biased else None, residual, None


_sum.register_autograd(_grads, setup_context=_save)
