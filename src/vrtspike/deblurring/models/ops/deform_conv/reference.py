"""The guided deformable convolution in PyTorch: reference, and what runs without a kernel.

The convolution is that of ``torchvision.ops`` on CUDA, where it is installed; else, and on a CPU,
where they take a fifth of its time, bilinear sampling and one matrix product per frame. Offsets,
modulation and sampled values, many times the features, are made again for the gradient.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from vrtspike.deblurring.models.mixed_precision import without_autocast

KERNEL = 3
POINTS = KERNEL * KERNEL
# 3.5 KB of sampled values a pixel at 96 channels: half a gigabyte.
_PIXELS_CUDA = 1 << 17


def neighbours(x: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of frames: first each one with its next, then each one with its previous one.

    Args:
        x: (B, T, H, W, C), T at least 2.

    Returns:
        The neighbours and the frames themselves, (2 * B * (T - 1), H, W, C) each.
    """
    early, late = x[:, :-1], x[:, 1:]
    return torch.cat((late, early)).flatten(0, 1), torch.cat((early, late)).flatten(0, 1)


def beside_frames(aligned: Tensor, frames: int) -> Tensor:
    """What was made of all neighbours, at their frames.

    Args:
        aligned: (2 * B * (T - 1), H, W, C), in the order of :func:`neighbours`.
        frames: T.

    Returns:
        (B, T, H, W, 2C): of the next frame and of the previous one; zeros where there is none.
    """
    later, earlier = aligned.unflatten(0, (2, -1, frames - 1))
    edge = torch.zeros_like(later[:, :1])
    return torch.cat((torch.cat((later, edge), dim=1), torch.cat((edge, earlier), dim=1)), dim=-1)


def deform_conv_of_raw_offsets(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    """3 x 3 deformable convolution with padding 1 of frames one by one.

    Computed in float32 or better, whatever the types: offsets of half precision would round
    positions to whole pixels on a large picture.

    Args:
        x: (N, C, H, W).
        raw: (N, groups * 27, H, W), see :func:`offsets_and_mask`.
        flow: (N, 2, H, W), x first, pixels.
        weight: (C', C, 3, 3).
        bias: (C',).
        max_magnitude: bound of the displacement beside the flow, pixels.

    Returns:
        (N, C', H, W) in the type of ``x``.
    """
    run = by_torchvision if x.is_cuda and find_spec("torchvision") else _DeformConv.apply
    found: Tensor = run(x, raw, flow, weight, bias, max_magnitude)
    return found


def offsets_and_mask(raw: Tensor, flow: Tensor, max_magnitude: float) -> tuple[Tensor, Tensor]:
    """What torchvision takes, from what a convolution gave; in float32 or better.

    Args:
        raw: (N, groups * 27, H, W): first 18 numbers a group that become the displacement of its
            9 taps, ``max_magnitude * tanh(raw) + flow``, in (y, x) pairs; then 9 a group that
            become their modulation, ``sigmoid(raw)``.
        flow: (N, 2, H, W), x first.
        max_magnitude: bound of the displacement beside the flow.

    Returns:
        Displacement (N, groups * 18, H, W) and modulation (N, groups * 9, H, W).
    """
    exact = torch.promote_types(raw.dtype, torch.float32)
    moves, modulation = raw.to(exact).split((raw.shape[1] // 3 * 2, raw.shape[1] // 3), dim=1)
    correction = max_magnitude * torch.tanh(moves)
    # Offsets come in (y, x) pairs, the flow in (x, y).
    offset = correction.unflatten(1, (-1, 2)) + flow.to(exact).flip(1).unsqueeze(1)
    return offset.flatten(1, 2), torch.sigmoid(modulation)


def by_torchvision(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    """:func:`deform_conv_of_raw_offsets` by torchvision, of some frames at once."""
    # Imported here: everything else is PyTorch alone.
    from torchvision.ops import deform_conv2d

    def run(x: Tensor, raw: Tensor, flow: Tensor) -> Tensor:
        offset, mask = offsets_and_mask(raw, flow, max_magnitude)
        exact, matrix, vector = (t.to(mask.dtype) for t in (x, weight, bias))
        with without_autocast(x):
            found: Tensor = deform_conv2d(exact, offset, matrix, vector, padding=1, mask=mask)
        return found.to(x.dtype)

    frames = max(_PIXELS_CUDA // flow[0, 0].numel(), 1)
    parts = zip(*(t.split(frames) for t in (x, raw, flow)), strict=True)
    options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
    return torch.cat([checkpoint(run, *part, **options) for part in parts])


def _sampled(x: Tensor, raw: Tensor, flow: Tensor, max_magnitude: float) -> Tensor:
    """Modulated samples of a frame (C, H, W), in the order of the weights: (C * 9, H * W)."""
    height, width = flow.shape[1:]
    offset, mask = offsets_and_mask(raw[None], flow[None], max_magnitude)
    points = offset.view(-1, KERNEL, KERNEL, 2, height, width)
    tap, rows, columns = (torch.arange(n, device=x.device) for n in (KERNEL, height, width))
    tap -= KERNEL // 2
    y = points[:, :, :, 0] + (tap[:, None, None, None] + rows[:, None])
    x_at = points[:, :, :, 1] + (tap[:, None, None] + columns)
    # Pixel p of n has its centre at (2p + 1) / n - 1 with align_corners=False; that convention,
    # unlike the other, also holds for a single row or column.
    grid = torch.stack(((2 * x_at + 1) / width - 1, (2 * y + 1) / height - 1), dim=-1)
    grid = grid.view(-1, POINTS * height, width, 2)
    by_group = x.unflatten(0, (grid.shape[0], -1))
    found = functional.grid_sample(by_group, grid, padding_mode="zeros", align_corners=False)
    found = found.unflatten(2, (POINTS, -1)) * mask.view(-1, 1, POINTS, height, width)
    return found.view(-1, height * width)


class _DeformConv(torch.autograd.Function):
    """Samples of one frame at a time and their product with the weights; keeps its inputs only."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:  # noqa: ANN401
        x, raw, flow, weight, bias, ctx.max_magnitude = inputs
        ctx.save_for_backward(x, raw, flow, weight)
        exact = torch.promote_types(raw.dtype, torch.float32)
        matrix, bias = weight.to(exact).flatten(1), bias.to(exact)[:, None]
        out = x.new_empty(len(x), len(weight), *x.shape[2:])
        with without_autocast(x):
            for i, frame in enumerate(x):
                picture = frame.to(exact).contiguous()
                sampled = _sampled(picture, raw[i], flow[i], ctx.max_magnitude)
                out[i] = torch.addmm(bias, matrix, sampled).view_as(out[i])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, raw, flow, weight = ctx.saved_tensors
        exact = torch.promote_types(raw.dtype, torch.float32)
        matrix = weight.to(exact).flatten(1)
        grads = [torch.empty_like(t) for t in (x, raw, flow)]
        grad_matrix = torch.zeros_like(matrix) if ctx.needs_input_grad[3] else None
        with without_autocast(grad):
            for i, rows in enumerate(grad.to(exact).flatten(2)):
                inputs = (t[i].to(exact).contiguous() for t in (x, raw, flow))
                leaves = [t.detach().requires_grad_() for t in inputs]
                with torch.enable_grad():
                    sampled = _sampled(leaves[0], leaves[1], leaves[2], ctx.max_magnitude)
                if grad_matrix is not None:
                    grad_matrix += rows @ sampled.detach().T
                found = torch.autograd.grad(sampled, leaves, matrix.T @ rows)
                for target, gradient in zip(grads, found, strict=True):
                    target[i] = gradient
        grad_weight = None if grad_matrix is None else grad_matrix.view_as(weight).to(weight.dtype)
        grad_bias = grad.sum((0, 2, 3), dtype=exact).to(weight.dtype)
        return (*grads, grad_weight, grad_bias, None)
