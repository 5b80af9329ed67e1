"""Layer norms by our own Triton kernels, for CUDA: each tensor is read and written once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vrtspike.deblurring.models.kernel_launch import on_device_of, tile
from vrtspike.deblurring.models.norms.definition import EPSILON

WIDEST = 512
_VALUES = 4096  # of a tile
_TILES = 4


def triton_norm(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    beside: Tensor | None,
    dtype: torch.dtype,
    *,
    folded: bool,
) -> tuple[Tensor, Tensor]:
    """:func:`defined_norm` by own kernels."""
    through, out = _Norm.apply(x, scale, shift, beside, dtype, folded)
    return through, out


def launch(channels: int, *, gradient: bool) -> dict[str, int]:
    """Sizes and options of a launch for a norm over ``channels``."""
    block = tile(channels)
    sizes = {"K": channels, "BLOCK": _VALUES // block, "BLOCK_K": block}
    # The gradient holds five tiles at once: half of each for a thread.
    return {**sizes, "TILES": _TILES, "num_warps": 8} if gradient else {**sizes, "num_warps": 4}


def _grid(rows: int, sizes: dict[str, int]) -> tuple[int]:
    return (-(-rows // (sizes["BLOCK"] * sizes.get("TILES", 1))),)


def _out_shape(x: Tensor, beside: bool, folded: bool) -> list[int]:
    *size, channels = x.shape
    if folded:
        *clip, height, width = size
        return [*clip, height // 2, width // 2, 4 * channels]
    return [*size, 2 * channels if beside else channels]


@torch.library.custom_op("vrtspike::layer_norm", mutates_args=())
def _norm(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    beside: Tensor | None,
    dtype: torch.dtype,
    folded: bool,
) -> Tensor:
    from vrtspike.deblurring.models.norms.kernels import norm_kernel

    x = x.contiguous()
    sizes = launch(scale.numel(), gradient=False)
    rows = x.numel() // sizes["K"]
    out = x.new_empty(_out_shape(x, beside is not None, folded), dtype=dtype)
    with on_device_of(x):
        norm_kernel[_grid(rows, sizes)](
            x,
            scale,
            shift,
            x if beside is None else beside.contiguous(),
            out,
            rows,
            x.shape[-2],
            FOLDED=folded,
            BESIDE=beside is not None,
            EPSILON=EPSILON,
            **sizes,
        )
    return out


@_norm.register_fake
def _(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    beside: Tensor | None,
    dtype: torch.dtype,
    folded: bool,
) -> Tensor:
    return x.new_empty(_out_shape(x, beside is not None, folded), dtype=dtype)


@torch.library.custom_op("vrtspike::layer_norm_backward", mutates_args=())
def _backward(
    grad: Tensor, through: Tensor | None, x: Tensor, scale: Tensor, beside: bool, folded: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of x, and of scale and shift beside each other in float32."""
    from vrtspike.deblurring.models.norms.kernels import norm_gradient_kernel

    x, grad = x.contiguous(), grad.contiguous()
    sizes = launch(scale.numel(), gradient=True)
    rows = x.numel() // sizes["K"]
    grid = _grid(rows, sizes)
    grad_x = torch.empty_like(x)
    lines = x.new_empty(grid[0], 2 * sizes["K"], dtype=torch.float32)
    with on_device_of(x):
        norm_gradient_kernel[grid](
            grad,
            grad if through is None else through.contiguous(),
            x,
            scale,
            grad_x,
            lines,
            rows,
            x.shape[-2],
            FOLDED=folded,
            BESIDE=beside,
            THROUGH=through is not None,
            EPSILON=EPSILON,
            **sizes,
        )
    return grad_x, lines.sum(0)


@_backward.register_fake
def _(
    grad: Tensor, through: Tensor | None, x: Tensor, scale: Tensor, beside: bool, folded: bool
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(2 * scale.numel(), dtype=torch.float32)


class _Norm(torch.autograd.Function):
    """The features handed through, and the norm of them with what is beside."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        shift, beside, dtype, folded = rest
        x = x.contiguous()  # both passes read it
        ctx.save_for_backward(x, scale)
        ctx.set_materialize_grads(False)
        ctx.shift_dtype, ctx.folded = shift.dtype, folded
        ctx.beside_dtype = None if beside is None else beside.dtype
        return x.view_as(x), _norm(x, scale, shift, beside, dtype, folded)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,  # noqa: ANN401
        through: Tensor | None,
        grad: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        if grad is None:
            return through, None, None, None, None, None
        x, scale = ctx.saved_tensors
        has_beside = ctx.beside_dtype is not None
        grad_x, both = _backward(grad, through, x, scale, has_beside, ctx.folded)
        of_scale, of_shift = both.chunk(2)
        beside = grad[..., x.shape[-1] :].to(ctx.beside_dtype) if has_beside else None
        return grad_x, of_scale.to(scale.dtype), of_shift.to(ctx.shift_dtype), beside, None, None
