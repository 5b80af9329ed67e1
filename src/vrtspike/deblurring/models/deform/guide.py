"""What the alignment's offsets are computed from, channels last and in one pass, for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vrtspike.deblurring.models.deform.definition import only_wanted
from vrtspike.deblurring.models.deform.pairs import neighbours
from vrtspike.deblurring.models.kernel_launch import on_device_of, tile
from vrtspike.deblurring.models.warp import flow_warp

# Matrix products of half precision want a multiple of 16 bytes.
_MULTIPLE = 8
_PIXELS = 32
# Channels at a time: four threads read those of a pixel, so few compute where it is sampled.
_PART = 32


def guide_width(channels: int) -> int:
    """Channels of the guide of features of ``channels``, with those that are constant."""
    return -(-(2 * channels + 3) // _MULTIPLE) * _MULTIPLE


def guide_kernel_takes(x: Tensor) -> bool:
    """Whether features (B, T, H, W, C) have a size that the kernels are made for.

    The definition samples the only row or column wherever the flow points; the kernels do not.
    """
    height, width, channels = x.shape[2:]
    # Pixels are found by 32 bits from the start of their frame.
    return min(height, width) > 1 and height * width * guide_width(channels) < 2**31


def alignment_guide(x: Tensor, flow: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Neighbour warped by the flow, frame itself, flow, one and zeros on the channels.

    The one is for the bias of the convolution that follows, which so need not pass over its result.

    Args:
        x: (B, T, H, W, C), T at least 2.
        flow: (N, 2, H, W) of its pairs, see :func:`neighbours`; from the frame into its neighbour,
            in pixels, x first.
        dtype: of the products.

    Returns:
        ``x`` in that type, to be used from here on: kernels add its gradient to that of the guide;
        and the guide, (N, H, W, guide_width(C)).
    """
    x = x.to(dtype)
    neighbour, current = neighbours(x)
    warped = flow_warp(neighbour.permute(0, 3, 1, 2), flow).permute(0, 2, 3, 1)
    numbers = functional.pad(flow.permute(0, 2, 3, 1), (0, 1), value=1.0).to(x.dtype)
    whole = torch.cat((warped, current, numbers), dim=-1)
    return x, functional.pad(whole, (0, guide_width(x.shape[-1]) - whole.shape[-1]))


def guide_by_kernel(x: Tensor, flow: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """:func:`alignment_guide` by own kernels."""
    features, guide = _Guide.apply(x, flow, dtype)
    return features, guide


def constants(channels: int) -> dict[str, int]:
    """Compile-time constants and options of both kernels, for features of ``channels``."""
    part = min(channels & -channels, _PART)
    # All at once where equal parts would be short.
    block = part if part >= 16 else tile(channels)
    return {
        "BLOCK": _PIXELS,
        "CHANNELS": channels,
        "BLOCK_C": block,
        "WIDTH": guide_width(channels),
        "num_warps": max(block // 16, 4),
    }


def _grid(flow: Tensor) -> tuple[int, int, int]:
    """Programs across, down, and of pairs."""
    pairs, _, height, width = flow.shape
    return -(-width // _PIXELS), height, pairs


def _sizes(x: Tensor, flow: Tensor) -> tuple[int, int, int, int]:
    """Height, width, pairs of one direction, those of a clip."""
    return x.shape[2], x.shape[3], flow.shape[0] // 2, x.shape[1] - 1


@torch.library.custom_op("vrtspike::alignment_guide", mutates_args=())
def _forward(x: Tensor, flow: Tensor) -> Tensor:
    from vrtspike.deblurring.models.deform.guide_kernels import guide_kernel

    pairs, _, height, width = flow.shape
    guide = x.new_empty(pairs, height, width, guide_width(x.shape[-1]))
    with on_device_of(x):
        guide_kernel[_grid(flow)](
            x.contiguous(), flow.contiguous(), guide, *_sizes(x, flow), **constants(x.shape[-1])
        )
    return guide


@_forward.register_fake
def _(x: Tensor, flow: Tensor) -> Tensor:
    pairs, _, height, width = flow.shape
    return x.new_empty(pairs, height, width, guide_width(x.shape[-1]))


@torch.library.custom_op("vrtspike::alignment_guide_backward", mutates_args=())
def _backward(
    through: Tensor, grad: Tensor, x: Tensor, flow: Tensor, wanted: Sequence[bool]
) -> list[Tensor]:
    """Gradients of features (float32, ``through`` added) and flow; of those not wanted, nothing."""
    from vrtspike.deblurring.models.deform.guide_kernels import guide_gradient_kernel

    for_x, for_flow = wanted
    x, flow = x.contiguous(), flow.contiguous()
    grad_flow = torch.empty_like(flow)
    # The kernel adds to what is there.
    sums = torch.empty_like(x if for_x else x[:0], dtype=torch.float32)
    if for_x:
        sums.copy_(through)
    with on_device_of(x):
        guide_gradient_kernel[_grid(flow)](
            grad.contiguous(),
            x,
            flow,
            sums,
            grad_flow,
            *_sizes(x, flow),
            FOR_X=for_x,
            FOR_FLOW=for_flow,
            **constants(x.shape[-1]),
        )
    return only_wanted([sums, grad_flow], wanted)


@_backward.register_fake
def _(through: Tensor, _: Tensor, x: Tensor, flow: Tensor, wanted: Sequence[bool]) -> list[Tensor]:
    sums = x.new_empty(x.shape, dtype=torch.float32)
    return only_wanted([sums, flow.new_empty(flow.shape)], wanted)


class _Guide(torch.autograd.Function):
    """Features in the type of the products, and the guide."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, flow: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        features = x.to(dtype)
        ctx.save_for_backward(features, flow)
        ctx.dtype = x.dtype
        return features.view_as(features) if features is x else features, _forward(features, flow)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x_wanted, flow_wanted, _ = ctx.needs_input_grad
        wanted = [x_wanted, flow_wanted]
        x, flow = _backward(*grads, *ctx.saved_tensors, wanted)
        return x.to(ctx.dtype) if x_wanted else None, flow if flow_wanted else None, None
