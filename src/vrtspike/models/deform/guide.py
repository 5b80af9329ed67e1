"""What the alignment's offsets are computed from, channels last and in one pass, for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.models.deform.definition import only_wanted
from vrtspike.models.warp import flow_warp

# Matrix products of half precision want a multiple of 16 bytes.
_MULTIPLE = 8
_PIXELS = 32


def guide_width(channels: int) -> int:
    """Channels of the guide of features of ``channels``, with those that are constant."""
    return -(-(2 * channels + 3) // _MULTIPLE) * _MULTIPLE


def guide_kernel_takes(x: Tensor) -> bool:
    """Whether features (N, H, W, C) have a size that the kernels are made for.

    The definition samples the only row or column wherever the flow points; the kernels do not.
    """
    _, height, width, channels = x.shape
    # Pixels are found by 32 bits from the start of their frame.
    return min(height, width) > 1 and height * width * guide_width(channels) < 2**31


def alignment_guide(neighbour: Tensor, current: Tensor, flow: Tensor) -> Tensor:
    """Neighbour warped by the flow, current frame, flow, one and zeros on the channels.

    The one is for the bias of the convolution that follows, which so need not pass over its result.

    Args:
        neighbour: (N, H, W, C).
        current: (N, H, W, C).
        flow: (N, 2, H, W), from the current frame into its neighbour, in pixels, x first.

    Returns:
        (N, H, W, guide_width(C)) in the type of ``current``.
    """
    warped = flow_warp(neighbour.permute(0, 3, 1, 2), flow).permute(0, 2, 3, 1)
    numbers = functional.pad(flow.permute(0, 2, 3, 1), (0, 1), value=1.0).to(current.dtype)
    whole = torch.cat((warped, current, numbers), dim=-1)
    return functional.pad(whole, (0, guide_width(current.shape[-1]) - whole.shape[-1]))


def guide_by_kernel(neighbour: Tensor, current: Tensor, flow: Tensor) -> Tensor:
    """:func:`alignment_guide` that reads and writes everything once."""
    return _forward(neighbour, current, flow)


def constants(channels: int) -> dict[str, int]:
    """Compile-time constants and options of both kernels, for features of ``channels``."""
    return {
        "BLOCK": _PIXELS,
        "CHANNELS": channels,
        "BLOCK_C": max(1 << (channels - 1).bit_length(), 16),
        "WIDTH": guide_width(channels),
        "num_warps": 8,
    }


def _grid(x: Tensor) -> tuple[int]:
    return (x.shape[0] * -(-x.shape[1] * x.shape[2] // _PIXELS),)


@torch.library.custom_op("vrtspike::alignment_guide", mutates_args=())
def _forward(neighbour: Tensor, current: Tensor, flow: Tensor) -> Tensor:
    from vrtspike.models.deform.guide_kernels import guide_kernel

    guide = current.new_empty(*current.shape[:3], guide_width(current.shape[-1]))
    # Triton launches on the current device, wherever the tensors are.
    with torch.cuda.device_of(current):
        guide_kernel[_grid(current)](
            neighbour.contiguous(),
            current.contiguous(),
            flow.contiguous(),
            guide,
            *current.shape[1:3],
            **constants(current.shape[-1]),
        )
    return guide


@_forward.register_fake
def _(neighbour: Tensor, current: Tensor, flow: Tensor) -> Tensor:
    return current.new_empty(*current.shape[:3], guide_width(current.shape[-1]))


@torch.library.custom_op("vrtspike::alignment_guide_backward", mutates_args=())
def _backward(
    grad: Tensor, neighbour: Tensor, flow: Tensor, wanted: Sequence[bool]
) -> list[Tensor]:
    """Gradients of neighbour and flow; of those not wanted, nothing."""
    from vrtspike.models.deform.guide_kernels import guide_gradient_kernel

    for_neighbour, for_flow = wanted
    neighbour, flow = neighbour.contiguous(), flow.contiguous()
    grad_flow = torch.empty_like(flow)
    sums = flow.new_zeros(neighbour.shape if for_neighbour else 0, dtype=torch.float32)
    with torch.cuda.device_of(neighbour):
        guide_gradient_kernel[_grid(neighbour)](
            grad.contiguous(),
            neighbour,
            flow,
            sums,
            grad_flow,
            *neighbour.shape[1:3],
            FOR_PICTURE=for_neighbour,
            FOR_FLOW=for_flow,
            **constants(neighbour.shape[-1]),
        )
    return only_wanted([sums.to(neighbour.dtype), grad_flow], wanted)


@_backward.register_fake
def _(_: Tensor, neighbour: Tensor, flow: Tensor, wanted: Sequence[bool]) -> list[Tensor]:
    return only_wanted([torch.empty_like(neighbour), torch.empty_like(flow)], wanted)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    neighbour, _, flow = inputs
    ctx.save_for_backward(neighbour, flow)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    neighbour, flow = ctx.saved_tensors
    for_neighbour, for_current, for_flow = ctx.needs_input_grad
    wanted = [for_neighbour, for_flow]
    by_neighbour = by_flow = by_current = None
    if any(wanted):
        found = _backward(grad, neighbour, flow, wanted)
        by_neighbour, by_flow = (
            t if asked else None for t, asked in zip(found, wanted, strict=True)
        )
    if for_current:
        channels = neighbour.shape[-1]
        by_current = grad[..., channels : 2 * channels]
    return by_neighbour, by_current, by_flow


_forward.register_autograd(_grads, setup_context=_save)
