"""The guided deformable convolution in PyTorch: definition, and what runs without a kernel.

Source: Zhu et al., 2019, "Deformable ConvNets v2"; offsets as a bounded correction of a flow after
BasicVSR++ (Chan et al., 2022) and VRT. The convolution is that of ``torchvision.ops``, which runs
on CUDA where it is installed; else, and on a CPU, where they take a fifth of its time, bilinear
sampling and one matrix product per frame.
Offsets, modulation and sampled values, many times the features, are made again for the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import without_autocast

KERNEL = 3
POINTS = KERNEL * KERNEL
# 3.5 KB of sampled values a pixel at 96 channels: half a gigabyte.
_PIXELS_CUDA = 1 << 17

Gradients = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]


def guided_deform_conv(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    """3 x 3 deformable convolution with padding 1.

    Computed in float32 or better, whatever the types: offsets of half precision would round
    positions to whole pixels on a large picture.

    Args:
        x: (N, C, H, W).
        raw: (N, groups * 27, H, W): first 18 numbers a group that become the displacement of its
            9 sampling points, ``max_magnitude * tanh(raw) + flow``, in (y, x) pairs and pixels;
            then 9 a group that become their modulation, ``sigmoid(raw)``.
        flow: (N, 2, H, W), x first.
        weight: (C', C, 3, 3).
        bias: (C',).
        max_magnitude: bound of the displacement beside the flow.

    Returns:
        (N, C', H, W) in the type of ``x``.
    """
    return _forward(x, raw, flow, weight, bias, max_magnitude)


def offsets_and_mask(raw: Tensor, flow: Tensor, max_magnitude: float) -> tuple[Tensor, Tensor]:
    """Displacement (N, groups * 18, H, W) and modulation (N, groups * 9, H, W)."""
    exact = torch.promote_types(raw.dtype, torch.float32)
    moves, modulation = raw.to(exact).split((raw.shape[1] // 3 * 2, raw.shape[1] // 3), dim=1)
    correction = max_magnitude * torch.tanh(moves)
    # Offsets come in (y, x) pairs, the flow in (x, y).
    offset = correction.unflatten(1, (-1, 2)) + flow.to(exact).flip(1).unsqueeze(1)
    return offset.flatten(1, 2), torch.sigmoid(modulation)


def by_point(numbers: Tensor, groups: int) -> Tensor:
    """Another order of what :func:`guided_deform_conv` takes as ``raw``, or of what makes it.

    Args:
        numbers: (groups * 27, ...).
        groups: offset groups.

    Returns:
        (9, 3, groups, ...): for each sampling point what becomes the displacement down, the
        displacement right and the modulation of every group, next to each other.
    """
    moves, modulation = numbers.split((groups * 2 * POINTS, groups * POINTS))
    moves, modulation = (
        moves.unflatten(0, (groups, POINTS, 2)),
        modulation.unflatten(0, (groups, POINTS, 1)),
    )
    return torch.cat((moves.movedim(0, 2), modulation.movedim(0, 2)), dim=1)


def _sampling_grid(offset: Tensor, groups: int) -> Tensor:
    """One frame's sampling points as ``grid_sample`` wants them: (groups, 9 * H, W, 2)."""
    height, width = offset.shape[-2:]
    points = offset.view(groups, KERNEL, KERNEL, 2, height, width)

    def line(length: int) -> Tensor:
        return torch.arange(length, device=offset.device, dtype=offset.dtype)

    tap = line(KERNEL) - KERNEL // 2
    y = points[:, :, :, 0] + (tap.view(KERNEL, 1, 1, 1) + line(height).view(height, 1))
    x = points[:, :, :, 1] + (tap.view(KERNEL, 1, 1) + line(width))
    # Pixel p of n has its centre at (2p + 1) / n - 1 with align_corners=False; that convention,
    # unlike the other, also holds for a single row or column.
    grid = torch.stack(((2 * x + 1) / width - 1, (2 * y + 1) / height - 1), dim=-1)
    return grid.view(groups, POINTS * height, width, 2)


def _sample(x: Tensor, grid: Tensor) -> Tensor:
    """(groups, c, H, W) at the grid: (groups, c, 9, H * W)."""
    sampled = functional.grid_sample(x, grid, padding_mode="zeros", align_corners=False)
    return sampled.unflatten(2, (POINTS, -1)).flatten(3)


def deform_conv(x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``torchvision.ops.deform_conv2d`` with padding 1, without autograd; for a CPU."""
    groups = mask.shape[1] // POINTS
    matrix = weight.flatten(1)
    out = x.new_empty(x.shape[0], weight.shape[0], x.shape[2], x.shape[3])
    for frame, moves, modulation, target in zip(x, offset, mask, out, strict=True):
        sampled = _sample(frame.unflatten(0, (groups, -1)), _sampling_grid(moves, groups))
        sampled *= modulation.view(groups, 1, POINTS, -1)
        torch.addmm(bias[:, None], matrix, sampled.view(matrix.shape[1], -1), out=target.flatten(1))
    return out


def deform_conv_backward(
    grad: Tensor, x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, learns: bool = True
) -> Gradients:
    """Gradients of x, offset, mask, weight and bias of :func:`deform_conv`.

    Args:
        learns: whether weight and bias want theirs, which are None otherwise.
    """
    groups = mask.shape[1] // POINTS
    matrix = weight.flatten(1)
    grad_x, grad_offset, grad_mask = (torch.empty_like(t) for t in (x, offset, mask))
    grad_matrix = torch.zeros_like(matrix) if learns else None
    for i in range(x.shape[0]):
        frame = x[i].unflatten(0, (groups, -1))
        grid = _sampling_grid(offset[i], groups)
        modulation = mask[i].view(groups, 1, POINTS, -1)
        rows = grad[i].flatten(1)
        sampled = _sample(frame, grid)
        if grad_matrix is not None:
            grad_matrix += rows @ (sampled * modulation).view(matrix.shape[1], -1).T
        grad_sampled = (matrix.T @ rows).view_as(sampled)
        grad_mask[i] = (grad_sampled * sampled).sum(1).view_as(mask[i])
        grad_frame, grad_grid = torch.ops.aten.grid_sampler_2d_backward(
            (grad_sampled * modulation).view(*frame.shape[:2], *grid.shape[1:3]),
            frame,
            grid,
            0,  # bilinear
            0,  # zeros outside
            False,
            [True, True],
        )
        grad_x[i] = grad_frame.flatten(0, 1)
        # (groups, 9, H, W, [x, y]) in grid units -> (groups, 9, [y, x], H, W) in pixels.
        grad_grid[..., 0] *= 2 / x.shape[3]
        grad_grid[..., 1] *= 2 / x.shape[2]
        moved = grad_grid.view(groups, POINTS, *x.shape[2:], 2).flip(-1)
        grad_offset[i] = moved.permute(0, 1, 4, 2, 3).flatten(0, 2)
    if grad_matrix is None:
        return grad_x, grad_offset, grad_mask, None, None
    return grad_x, grad_offset, grad_mask, grad_matrix.view_as(weight), grad.sum((0, 2, 3))


@lru_cache(maxsize=1)
def has_torchvision() -> bool:
    """Whether the package torchvision is installed."""
    return find_spec("torchvision") is not None


def _by_torchvision(x: Tensor) -> bool:
    return x.is_cuda and has_torchvision()


def torchvision_conv(
    x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """:func:`deform_conv` by torchvision's own kernel; for CUDA."""
    # Imported here: everything else is PyTorch alone.
    from torchvision.ops import deform_conv2d

    result: Tensor = deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    return result


def torchvision_backward(
    grad: Tensor, x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, learns: bool = True
) -> Gradients:
    """The same gradients by torchvision's own kernel, without its forward pass; for CUDA.

    It has no way to leave out those of weight and bias.
    """
    import torchvision.ops  # noqa: F401 - registers the operation

    groups = mask.shape[1] // POINTS
    bias = weight.new_zeros(weight.shape[0])
    strides_padding_dilation = (1, 1, 1, 1, 1, 1)
    grad_x, grad_weight, grad_offset, grad_mask, grad_bias = (
        torch.ops.torchvision._deform_conv2d_backward(
            grad, x, weight, offset, mask, bias, *strides_padding_dilation, 1, groups, True
        )
    )
    return grad_x, grad_offset, grad_mask, grad_weight, grad_bias


def _frames_at_once(x: Tensor) -> Iterator[slice]:
    """Parts of the frames whose offsets and sampled values exist at the same time."""
    pixels = _PIXELS_CUDA if x.is_cuda else 1
    step = max(pixels // (x.shape[2] * x.shape[3]), 1)
    for start in range(0, x.shape[0], step):
        yield slice(start, start + step)


@torch.library.custom_op("vrtspike::guided_deform_conv", mutates_args=())
def _forward(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    exact = torch.promote_types(raw.dtype, torch.float32)
    matrix, vector = weight.to(exact), bias.to(exact)
    out = x.new_empty(x.shape[0], weight.shape[0], x.shape[2], x.shape[3])
    with without_autocast(x):
        for part in _frames_at_once(x):
            offset, mask = offsets_and_mask(raw[part], flow[part], max_magnitude)
            frames = x[part].to(exact).contiguous()
            run = torchvision_conv if _by_torchvision(x) else deform_conv
            out[part] = run(frames, offset, mask, matrix, vector)
    return out


@_forward.register_fake
def _(x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, *_: Any) -> Tensor:  # noqa: ANN401
    return x.new_empty(x.shape[0], weight.shape[0], x.shape[2], x.shape[3])


@torch.library.custom_op("vrtspike::guided_deform_conv_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    raw: Tensor,
    flow: Tensor,
    weight: Tensor,
    max_magnitude: float,
    wanted: Sequence[bool],
) -> list[Tensor]:
    """Gradients of x, raw, flow, weight and bias; of those not wanted, nothing."""
    _, _, for_flow, *learning = wanted
    exact = torch.promote_types(raw.dtype, torch.float32)
    matrix = weight.to(exact)
    grad_x, grad_raw, grad_flow = (torch.empty_like(t) for t in (x, raw, flow))
    grad_weight = torch.zeros_like(matrix)
    grad_bias = matrix.new_zeros(weight.shape[0])
    run = torchvision_backward if _by_torchvision(x) else deform_conv_backward
    for part in _frames_at_once(x):
        offset, mask = offsets_and_mask(raw[part], flow[part], max_magnitude)
        g, frames = (t[part].to(exact).contiguous() for t in (grad, x))
        grad_x[part], grad_offset, grad_mask, for_weight, for_bias = run(
            g, frames, offset, mask, matrix, any(learning)
        )
        if for_weight is not None and for_bias is not None:
            grad_weight += for_weight
            grad_bias += for_bias
        points = offset.shape[1]
        slope = max_magnitude * (1 - torch.tanh(raw[part, :points].to(exact)).square())
        grad_raw[part, :points] = grad_offset * slope
        grad_raw[part, points:] = grad_mask * mask * (1 - mask)
        if for_flow:
            grad_flow[part] = grad_offset.unflatten(1, (-1, 2)).sum(1).flip(1)
    found = [grad_x, grad_raw, grad_flow, *(t.to(weight.dtype) for t in (grad_weight, grad_bias))]
    return only_wanted(found, wanted)


@_backward.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    raw: Tensor,
    flow: Tensor,
    weight: Tensor,
    max_magnitude: float,
    wanted: Sequence[bool],
) -> list[Tensor]:
    own = [torch.empty_like(t) for t in (x, raw, flow, weight)]
    return only_wanted([*own, weight.new_empty(grad.shape[1])], wanted)


def only_wanted(gradients: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor]:
    """Gradients, empty ones in place of those not wanted: an operation cannot return None."""
    pairs = zip(gradients, wanted, strict=True)
    return [gradient if asked else gradient.new_empty(0) for gradient, asked in pairs]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    *tensors, _, ctx.max_magnitude = inputs
    ctx.save_for_backward(*tensors)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    wanted = list(ctx.needs_input_grad[:5])
    found = _backward(grad, *ctx.saved_tensors, ctx.max_magnitude, wanted)
    return (*(t if asked else None for t, asked in zip(found, wanted, strict=True)), None)


_forward.register_autograd(_grads, setup_context=_save)
