"""The guided deformable convolution: what models call, and how its kernel is tried."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.ops.comparison import differences, isolated, largest
from vrtspike.deblurring.models.ops.deform_conv.reference import (
    POINTS,
    beside_frames,
    deform_conv_of_raw_offsets,
    neighbours,
)
from vrtspike.deblurring.models.ops.deform_conv.triton_deform import KernelDeformConv, kernel_takes
from vrtspike.deblurring.models.ops.dispatch import Compute, Operation, uses_kernel

Shape = tuple[int, int, int, int, int, int, int]
"""Clips, frames, groups, channels of a group, channels of the result, height, width."""

# The published model and the demo, on maps that tiles do not divide.
_SHAPES: Sequence[Shape] = ((1, 3, 16, 6, 96, 21, 26), (2, 2, 4, 8, 32, 9, 5))
_MAGNITUDE = 10.0
# Kernels for tensor cores read channels in groups of eight; cuDNN would copy what has others.
_ALIGNED = 8


def guided_deform_conv(
    x: Tensor,
    hidden: Tensor,
    last: nn.Conv2d,
    flow: Tensor,
    weight: Tensor,
    bias: Tensor,
    max_magnitude: float,
    compute: Compute,
) -> Tensor:
    """Modulated deformable 3 x 3 convolution of each frame's neighbours, along a flow.

    Source: Zhu et al., 2019, "Deformable ConvNets v2"; offsets as a bounded correction of a flow
    after BasicVSR++ (Chan et al., 2022) and VRT (Liang et al., 2022).

    Args:
        x: (B, T, H, W, C) features, T at least 2.
        hidden: (N, C', H, W), what ``last`` is given; of the N = 2B(T - 1) pairs of
            :func:`neighbours`.
        last: 3 x 3 convolution with padding 1 and bias, to groups * 27 channels: first 18 a group
            that become the displacement of its 9 taps, ``max_magnitude * tanh + flow``, in (y, x)
            pairs; then 9 a group that become their modulation, between 0 and 1 by a sigmoid.
        flow: (N, 2, H, W), from each frame into its neighbour, x first, pixels; of any length.
        weight: (C'', C, 3, 3).
        bias: (C'',).
        max_magnitude: bound of the displacement beside the flow, pixels.
        compute: the settings of the model.

    Returns:
        (B, T, H, W, 2C'') in the type of products: the aligned next and previous frame on the
        channels, zeros where there is none. Positions are float32 or better in any case.

    Raises:
        ValueError: ``hidden`` or ``flow`` are not of as many pairs as ``x`` has.
    """
    clips, frames, *size, _ = x.shape
    pairs = 2 * clips * (frames - 1)
    if not pairs or len(hidden) != pairs or flow.shape != (pairs, 2, *size):
        raise ValueError(
            f"features {tuple(x.shape)}: found hidden values {tuple(hidden.shape)} and flow "
            f"{tuple(flow.shape)}; expected {pairs} pairs of frames, and at least one"
        )
    dtype = autocast_dtype(x)
    fits = kernel_takes(x, last.out_channels // (3 * POINTS), len(weight))
    # The kernel adds gradients in whatever order programs come.
    fits = fits and not torch.are_deterministic_algorithms_enabled()
    run = by_kernel if fits and uses_kernel(OPERATION, x, dtype, compute) else by_reference
    assert last.bias is not None
    return run(x.to(dtype), hidden, last.weight, last.bias, flow, weight, bias, max_magnitude)


def conv_of_parts(parts: Sequence[Tensor], layer: nn.Conv2d) -> Tensor:
    """``layer``, a 3 x 3 convolution with padding 1, of (N, H, W, C) parts beside each other.

    Returns:
        (N, C', H, W).
    """
    spare = -sum(part.shape[-1] for part in parts) % _ALIGNED
    pictures = functional.pad(torch.cat(tuple(parts), dim=-1), (0, spare)).permute(0, 3, 1, 2)
    weight = functional.pad(layer.weight, (0, 0, 0, 0, 0, spare))
    return functional.conv2d(pictures, weight, layer.bias, padding=1)


def group_offsets_by_tap(numbers: Tensor) -> Tensor:
    """Channels of the last offset convolution, published order (groups * 27, ...), by tap.

    Returns:
        (9, 3, groups, ...): for each tap what becomes the displacement down, the displacement right
        and the modulation of every group, next to each other.
    """
    moves, modulation = numbers.split((len(numbers) // 3 * 2, len(numbers) // 3))
    parts = (moves.unflatten(0, (-1, POINTS, 2)), modulation.unflatten(0, (-1, POINTS, 1)))
    return torch.cat([part.movedim(0, 2) for part in parts], dim=1)


@torch.compiler.disable
def by_kernel(
    x: Tensor, hidden: Tensor, last_weight: Tensor, last_bias: Tensor, flow: Tensor,
    weight: Tensor, bias: Tensor, max_magnitude: float,
) -> Tensor:  # fmt: skip
    """:func:`guided_deform_conv` by the kernels, which add the bias of the last convolution."""
    by_tap, last_bias = group_offsets_by_tap(last_weight), group_offsets_by_tap(last_bias)
    raw = functional.conv2d(hidden, by_tap.flatten(0, 2), padding=1).permute(0, 2, 3, 1)
    raw = raw.unflatten(-1, last_bias.shape)
    weights = (weight, bias, max_magnitude)
    found: Tensor = KernelDeformConv.apply(x, raw, last_bias, flow, *weights)
    return found


def by_reference(
    x: Tensor, hidden: Tensor, last_weight: Tensor, last_bias: Tensor, flow: Tensor,
    weight: Tensor, bias: Tensor, max_magnitude: float,
) -> Tensor:  # fmt: skip
    """:func:`guided_deform_conv` by PyTorch."""
    raw = functional.conv2d(hidden, last_weight, last_bias, padding=1)
    neighbour = neighbours(x)[0].permute(0, 3, 1, 2)
    aligned = deform_conv_of_raw_offsets(neighbour, raw, flow, weight, bias, max_magnitude)
    return beside_frames(aligned.permute(0, 2, 3, 1), x.shape[1])


def trial(device: torch.device, dtype: torch.dtype, shapes: Sequence[Shape] = _SHAPES) -> float:
    """The largest difference of the kernels from the reference, as a share of the norm.

    Args:
        device: where to run both.
        dtype: type of the products.
        shapes: what to compute.
    """
    return largest(d for shape in shapes for d in deform_differences(device, dtype, shape))


def deform_differences(device: torch.device, dtype: torch.dtype, shape: Shape) -> list[float]:
    """Differences of :func:`guided_deform_conv`, see :func:`differences`.

    What the last convolution gives is a sum of integers that half precision has exactly: rounding
    would move samples across pixels, where gradients of positions jump.
    """
    clips, frames, groups, channels, fan_out, *size = shape
    pairs, fan_in = 2 * clips * (frames - 1), groups * channels
    shapes = (
        (clips, frames, *size, fan_in),
        (pairs, fan_in, *size),
        (pairs, 2, *size),
        (fan_out, fan_in, 3, 3),
        (fan_out,),
    )
    with isolated(device) as generator:
        last = nn.Conv2d(fan_in, groups * 27, 3, padding=1, device=device)
        nn.init.normal_(last.weight)
        last.weight.data = last.weight.data.round() / 32
        x, hidden, flow, *weights = (
            torch.randn(s, device=device, generator=generator) for s in shapes
        )

        def run(
            compute: Compute,
            x: Tensor,
            hidden: Tensor,
            flow: Tensor,
            weight: Tensor,
            bias: Tensor,
        ) -> Tensor:
            return guided_deform_conv(x, hidden, last, flow, weight, bias, _MAGNITUDE, compute)

        # Flows of many pixels, and out of the picture.
        inputs = [x, hidden.round(), 5 * flow, *weights]
        return differences(run, inputs, dtype, rounded=2, layers=[last])


OPERATION = Operation("deform_conv", trial)
