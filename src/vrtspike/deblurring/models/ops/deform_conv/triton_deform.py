"""The guided deformable convolution by Triton kernels: how inputs are packed, and launches.

Everything is channels last, as the features around it are: nothing is transposed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import product_over_rows
from vrtspike.deblurring.models.ops.deform_conv.reference import POINTS
from vrtspike.deblurring.models.ops.launch import SMALLEST_DOT, Options, capability_of, launch, tile

# Of a group: kernels.CHANNELS, which is not imported where Triton is missing.
_CHANNELS = 8
_BORDER = 2
_LARGEST_DOT = 128
_SAMPLED_BYTES = 2**28
"""Sampled values that the backward pass holds at a time, unless a pair of frames has more."""


def kernel_takes(x: Tensor, groups: int, fan_out: int) -> bool:
    """Whether features (B, T, H, W, C) have a size that the kernels are made for."""
    height, width, channels = x.shape[2:]
    row = _lanes(groups) * _CHANNELS
    return (
        channels <= groups * _CHANNELS
        and max(row, fan_out) <= _LARGEST_DOT
        # Corners are found by 32 bits from the start of their frame.
        and height * width * row < 2**31
    )


def _lanes(groups: int) -> int:
    """Groups with those that are padded."""
    return tile(groups, SMALLEST_DOT // _CHANNELS)


def launch_options(
    capability: tuple[int, int], groups: int, fan_out: int, *, forward: bool
) -> Options:
    """Compile-time constants, pixels of a program and its warps, by compute capability."""
    # Two sampled groups are a thread's, four where sm_90's own matrix product makes the result: its
    # instructions are as many for twice the rows.
    rows, columns, warps = 8, 16 if forward and capability[0] == 9 else 8, 16
    if not forward and capability < (9, 0):
        # These add one number of a gradient at once, each at its own address, for which they lack
        # the registers.
        rows, columns, warps = 4, 8, 8
    sizes = {"GROUPS": groups, "FAN_OUT": fan_out, "G": _lanes(groups), "OUT": tile(fan_out)}
    return {**sizes, "TILE_H": rows, "TILE_W": columns, "num_warps": warps, "num_stages": 1}


class KernelDeformConv(torch.autograd.Function):
    """Deformable convolution of all neighbours of frames by the kernels; keeps its inputs only."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:  # noqa: ANN401
        """The convolution.

        Args:
            ctx: of autograd.
            inputs: x (B, T, H, W, C) of half precision, T at least 2, C / groups at most 8; raw (N,
                H, W, 9, 3, groups), of the N = 2B(T - 1) pairs of :func:`neighbours`, for each tap
                what becomes its displacement down, its displacement right and its modulation, once
                the next is added; raw_bias (9, 3, groups); flow (N, 2, H, W), x first, pixels;
                weight (C', C, 3, 3); bias (C',); bound of the displacement beside the flow, pixels.

        Returns:
            (B, T, H, W, 2C') in the type of x; see :func:`beside_frames`.
        """
        from vrtspike.deblurring.models.ops.deform_conv.kernels import forward_kernel

        x, raw, raw_bias, flow, weight, bias, max_magnitude = inputs
        fan_out = len(weight)
        out = x.new_empty(*x.shape[:4], 2 * fan_out)
        out[:, -1, ..., :fan_out].zero_()
        out[:, 0, ..., fan_out:].zero_()
        tiles, options = _options(raw, fan_out, forward=True)
        clips, frames, height, width, _ = ctx.shape = x.shape
        packed = _packed(x, raw, raw_bias, flow, weight)
        ctx.numbers = (height, width, clips * (frames - 1), frames - 1, max_magnitude)
        ctx.save_for_backward(weight, *packed)
        arguments = (*packed, *ctx.numbers, bias.contiguous(), out)
        launch(forward_kernel, (*tiles, len(raw)), *arguments, **options)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Gradients of all tensors; of the weight where it learns."""
        from vrtspike.deblurring.models.ops.deform_conv.kernels import backward_kernel

        weight, *packed = ctx.saved_tensors
        picture, raw, raw_bias, flow, _ = packed
        grad = grad if _has_one_pitch(grad) else grad.contiguous()
        fan_out, groups, learns = len(weight), raw.shape[-1], ctx.needs_input_grad[4]
        tiles, options = _options(raw, fan_out, forward=False)
        options |= {"PITCH": grad.stride(-2), "FOR_WEIGHT": learns}
        sums = grad.new_zeros(*ctx.shape[:4], picture.shape[-1], dtype=torch.float32)
        grad_raw, grad_flow = torch.empty_like(raw), torch.empty_like(flow)
        # Sampled values of a pixel, and how many pairs of frames hold them at a time.
        width = POINTS * groups * _CHANNELS if learns else 0
        pair_bytes = width * picture.element_size() * raw.shape[1] * raw.shape[2]
        most = _SAMPLED_BYTES // max(pair_bytes, 1)
        by_tap = grad.new_zeros(width, fan_out, dtype=torch.float32)
        grad_bias = grad.new_zeros(fan_out, dtype=torch.float32)
        begin = 0
        for direction in (grad[:, :-1, ..., :fan_out], grad[:, 1:, ..., fan_out:]):
            grad_bias += direction.sum((0, 1, 2, 3), dtype=torch.float32)
            for part in direction.flatten(0, 1).split(max(most, 1)):
                rows = part.reshape(-1, fan_out)
                columns = picture.new_empty(len(rows), width)
                arguments = (*packed, *ctx.numbers, grad, sums, grad_raw, grad_flow, columns, begin)
                launch(backward_kernel, (*tiles, len(part)), *arguments, **options)
                if learns:
                    by_tap += product_over_rows(columns, rows, torch.float32)
                del columns, arguments  # before the next are made
                begin += len(part)
        grad_weight = None
        if learns:
            channels = ctx.shape[-1] // groups
            apart = by_tap.unflatten(0, (POINTS, groups, _CHANNELS))[:, :, :channels]
            grad_weight = apart.permute(3, 1, 2, 0).reshape(weight.shape).to(weight.dtype)
        grad_x = _in_order(sums, picture.new_empty(ctx.shape), groups)
        grad_bias = grad_bias.to(weight.dtype)
        grad_raw_bias = grad_raw.sum((0, 1, 2), dtype=torch.float32).to(raw_bias.dtype)
        return grad_x, grad_raw, grad_raw_bias, grad_flow, grad_weight, grad_bias, None


def _packed(
    x: Tensor, raw: Tensor, raw_bias: Tensor, flow: Tensor, weight: Tensor
) -> tuple[Tensor, ...]:
    """The first arguments of both kernels: picture, ..., matrices of the taps."""
    groups, fan_out = raw.shape[-1], len(weight)
    channels = x.shape[-1] // groups
    # A vector for each group; else zeros.
    behind = (0, _CHANNELS - channels, 0, _lanes(groups) - groups)
    picture = functional.pad(x.unflatten(-1, (groups, -1)), (*behind, *4 * (_BORDER,)))
    by_tap = weight.to(x.dtype).reshape(fan_out, groups, channels, POINTS).permute(3, 0, 1, 2)
    matrices = functional.pad(by_tap, (*behind, 0, tile(fan_out) - fan_out)).permute(0, 2, 3, 1)
    return tuple(t.contiguous() for t in (picture.flatten(-2), raw, raw_bias, flow, matrices))


def _options(raw: Tensor, fan_out: int, *, forward: bool) -> tuple[tuple[int, int], Options]:
    """Tiles across and down; constants and options of a launch."""
    options = launch_options(capability_of(raw.device), raw.shape[-1], fan_out, forward=forward)
    return (-(-raw.shape[2] // options["TILE_W"]), -(-raw.shape[1] // options["TILE_H"])), options


def _has_one_pitch(grad: Tensor) -> bool:
    """Whether pixels lie at one distance, as part of the channels do, each without gaps."""
    even = [grad.stride(i) == grad.stride(i + 1) * grad.shape[i + 1] for i in range(3)]
    return grad.stride(-1) == 1 and all(even)


def _in_order(sums: Tensor, found: Tensor, groups: int) -> Tensor:
    """Copy sums of the kernel, (half of a group, group, channel) a pixel, to a gradient."""
    halves = sums.unflatten(-1, (2, -1, _CHANNELS // 2))[..., :groups, :].unbind(-3)
    parts = found.unflatten(-1, (groups, -1)).split(_CHANNELS // 2, -1)
    for half, part in zip(halves, parts, strict=False):  # one may hold all channels
        part.copy_(half[..., : part.shape[-1]])
    return found
