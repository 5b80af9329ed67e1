"""Voxel grids: the spikes of one exposure counted in K time bins, and their normalisation.

An exposure of T spike frames is cut into K bins, bin(t) = floor(t * K / T). T / K is rarely whole,
so bins hold different numbers of steps. Counts are stored (they are small integers); what a model
sees is the rate count / steps, then log1p, then standardisation with the mean and the standard
deviation of the training split. :func:`normalize_counts` is the only definition of that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError

if TYPE_CHECKING:
    import torch

#: Number of pixels by steps in the bin and count: {steps: array where [c] counts value c}.
Histogram = dict[int, NDArray[np.int64]]


def bin_edges(spike_frames: int, bins: int) -> NDArray[np.int64]:
    """First step of each bin, and the end: int64 (K + 1,), from 0 to T.

    Raises:
        DataError: if K is not between 1 and T (bins would be empty) or a count could exceed 255.
    """
    if bins < 1:
        raise DataError(f"{bins} voxel bins: at least 1 is needed (DATA.K)")
    if bins > spike_frames:
        raise DataError(
            f"{bins} voxel bins for {spike_frames} spike frames: bins would be empty; "
            f"set DATA.K to at most {spike_frames}"
        )
    edges = -(-np.arange(bins + 1, dtype=np.int64) * spike_frames // bins)
    if np.diff(edges).max() > 255:
        raise DataError(
            f"{bins} voxel bins for {spike_frames} spike frames: a bin holds more than 255 steps "
            "and its counts do not fit in 8 bits; raise DATA.K"
        )
    return edges


def bin_steps(spike_frames: int, bins: int) -> NDArray[np.int64]:
    """Number of steps in each bin: int64 (K,), its sum is T."""
    return np.diff(bin_edges(spike_frames, bins))


def voxelize(spikes: NDArray[np.uint8], bins: int) -> NDArray[np.uint8]:
    """Count the spikes of one exposure per bin and pixel.

    Args:
        spikes: uint8 (T, H, W) of 0 and 1, exactly the exposure's steps.
        bins: K.

    Returns:
        uint8 (K, H, W) counts.

    Raises:
        DataError: if K and T do not fit together (see :func:`bin_edges`).
    """
    edges = bin_edges(len(spikes), bins)
    counts = np.empty((bins, *spikes.shape[1:]), dtype=np.uint8)
    for k in range(bins):
        np.add.reduce(spikes[edges[k] : edges[k + 1]], axis=0, dtype=np.uint8, out=counts[k])
    return counts


def voxelize_packed(bits: NDArray[np.uint8], bins: int) -> NDArray[np.uint8]:
    """Like :func:`voxelize`, from packed spikes and several times faster.

    A table turns each byte into eight counts of 0 or 1, one in each byte of a 64-bit number; adding
    these numbers counts eight pixels at once (no count exceeds 255, so nothing carries over).

    Args:
        bits: uint8 (T, H, B), eight columns a byte, lowest bit first.
        bins: K.

    Returns:
        uint8 (K, H, 8 B) counts.

    Raises:
        DataError: if K and T do not fit together (see :func:`bin_edges`).
    """
    edges = bin_edges(len(bits), bins).tolist()
    _, height, width = bits.shape
    rows = np.ascontiguousarray(bits).reshape(-1, width)
    table = _byte_counts()
    counts = np.empty((bins, height, width), dtype=np.uint64)
    for k in range(bins):
        # OpenCV looks up bytes many times faster than NumPy, but knows no 64-bit integers: their
        # bits travel as floating-point numbers, with which nothing is computed.
        found = cv2.LUT(rows[edges[k] * height : edges[k + 1] * height], table)
        steps = np.asarray(found).view(np.uint64).reshape(-1, height, width)
        np.add.reduce(steps, axis=0, out=counts[k])
    return counts.view(np.uint8)


def join_planes(planes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Numbers from their bits.

    Args:
        planes: uint8 (P, ..., B), P at most 8: the lowest bits of all numbers, then the second
            ones and so on, eight numbers a byte, lowest bit first.

    Returns:
        uint8 (..., 8 B).
    """
    _, *outer, width = planes.shape
    rows = np.ascontiguousarray(planes).reshape(len(planes), -1, width)
    total = np.asarray(cv2.LUT(rows[0], _byte_counts())).view(np.uint64)
    for number, plane in enumerate(rows[1:], start=1):
        total |= np.asarray(cv2.LUT(plane, _byte_counts(number))).view(np.uint64)
    return total.view(np.uint8).reshape(*outer, 8 * width)


@functools.cache
def _byte_counts(shift: int = 0) -> NDArray[np.float64]:
    """The eight bits of every byte, each in a byte of its own, times 2 ** shift: (1, 256)."""
    every = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return (every << shift).view(np.float64).reshape(1, 256)


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of log1p(rate) over ``count`` voxels."""

    mean: float
    std: float
    count: int


def normalize_counts(
    counts: torch.Tensor, spike_frames: torch.Tensor, mean: float, std: float
) -> torch.Tensor:
    """Turn counts into what the model eats: (log1p(count / steps) - mean) / std.

    Args:
        counts: uint8 (..., K, h, w).
        spike_frames: integers (...), T of each voxel grid, on the same device.
        mean: mean of log1p(rate) over the training split.
        std: its standard deviation, > 0.

    Returns:
        float32 (..., K, h, w).
    """
    bins = counts.shape[-3]
    index = spike_frames.new_tensor(range(bins + 1))
    edges = -(-(spike_frames.unsqueeze(-1) * index) // bins)
    steps = edges.diff(dim=-1)[..., None, None]
    return (counts.float() / steps).log1p_().sub_(mean).div_(std)


def add_to_histogram(histogram: Histogram, counts: NDArray[np.uint8], spike_frames: int) -> None:
    """Count the voxels (K, h, w) of one exposure of T steps into ``histogram``, in place."""
    steps = bin_steps(spike_frames, len(counts))
    for value in np.unique(steps):
        found = np.bincount(counts[steps == value].ravel(), minlength=int(value) + 1)
        histogram[int(value)] = histogram.get(int(value), np.zeros(1, np.int64)) + found


def merge_histograms(histograms: Iterable[Mapping[int, NDArray[np.int64]]]) -> Histogram:
    """Sum of histograms; exact, since all are integers."""
    total: Histogram = {}
    for histogram in histograms:
        for steps, found in histogram.items():
            total[steps] = total.get(steps, np.zeros(1, np.int64)) + found
    return total


def histogram_statistics(histogram: Mapping[int, NDArray[np.int64]]) -> Statistics:
    """Mean and standard deviation (of the population) of log1p(count / steps), in float64.

    Raises:
        DataError: if the histogram is empty or all voxels are equal (nothing to standardise by).
    """
    count = sum(int(found.sum()) for found in histogram.values())
    if count == 0:
        raise DataError("no voxels to take statistics from: the training split is empty")
    values = {steps: np.log1p(np.arange(len(f)) / steps) for steps, f in histogram.items()}
    mean = math.fsum(float((f * values[steps]).sum()) for steps, f in histogram.items()) / count
    variance = math.fsum(
        float((f * (values[steps] - mean) ** 2).sum()) for steps, f in histogram.items()
    )
    std = math.sqrt(variance / count)
    if std == 0.0:
        raise DataError(
            "all voxels of the training split are equal: the spike files hold no signal"
        )
    return Statistics(mean, std, count)
