"""Whether sums of taps run as our own kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_trust import is_trusted, triton_runs
from vrtspike.deblurring.models.tap_sums.agreement import largest_difference
from vrtspike.deblurring.models.tap_sums.definition import defined_activation, defined_sum
from vrtspike.deblurring.models.tap_sums.triton_sums import triton_activation, triton_sum

_MOST_FRAMES = 2**16 - 1  # programs along the last axis of a grid


def sum_of_taps(
    taps: Tensor, bias: Tensor | None, residual: Tensor | None = None, *, rectified: bool = False
) -> Tensor:
    """The taps in time of every frame, summed where they fall.

    Tap 0 of frame t - 1, tap 1 of frame t and tap 2 of frame t + 1 fall on frame t.

    Args:
        taps: (B, T, H, W, 3C), the taps beside each other.
        bias: (C,), added to each frame.
        residual: (B, T, H, W, C), added too.
        rectified: whether negative sums become 0.

    Returns:
        (B, T, H, W, C).
    """
    slope = 0.0 if rectified else None
    if taps.shape[0] * taps.shape[1] <= _MOST_FRAMES and _is_trusted(taps.device, taps.dtype):
        return triton_sum(taps, bias, residual, slope=slope)
    return defined_sum(taps, bias, residual, slope=slope)


def activates(x: Tensor) -> bool:
    """Whether bias and activation of pictures ``x`` (N, ...) are one kernel of our own."""
    return x.shape[0] <= _MOST_FRAMES and _is_trusted(x.device, x.dtype)


def activated(x: Tensor, bias: Tensor, slope: float) -> Tensor:
    """``leaky_relu(x + bias, slope)``.

    Args:
        x: (N, H, W, C).
        bias: (C,).
        slope: of negative values, at least 0.

    Returns:
        The shape and the type of ``x``.
    """
    if activates(x):
        return triton_activation(x, bias, slope=slope)
    return defined_activation(x, bias, slope=slope)


@torch.compiler.assume_constant_result
def _is_trusted(device: torch.device, dtype: torch.dtype) -> bool:
    return triton_runs(device, dtype) and is_trusted(
        "own kernels of convolutions over time", largest_difference, device, dtype
    )
