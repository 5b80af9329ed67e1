"""Voxel grids: the spikes of one exposure counted in K time bins, and their normalisation.

The bins are those of :mod:`vrtspike.deblurring.data.exposure` and hold different numbers of steps.
Counts are stored (they are small integers); what a model sees is gain x count / steps, a brightness
(see :mod:`vrtspike.deblurring.data.store.gain`), standardised with the mean and the standard
deviation of the training split. :func:`normalize_counts` is the only definition of that. It is
linear on purpose: the mean of a logarithm of few spikes depends on how many they are, so a model of
log1p(rate) sees another brightness when the threshold is another one, whatever the gain (a linear
regression loses 13 to 18 dB from threshold 2 to 4, without the logarithm 3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.exposure import bin_edges, bin_steps
from vrtspike.errors import DataError

if TYPE_CHECKING:
    import torch

#: Number of pixels by steps in the bin and count: {steps: array where [c] counts value c}.
Histogram = dict[int, NDArray[np.int64]]


def voxelize(spikes: NDArray[np.uint8], bins: int) -> NDArray[np.uint8]:
    """Count the spikes of one exposure per bin and pixel.

    Args:
        spikes: uint8 (T, H, W) of 0 and 1, exactly the exposure's steps.
        bins: K.

    Returns:
        uint8 (K, H, W) counts.

    Raises:
        DataError: if the array is another one, or K and T do not fit together (see
            :func:`vrtspike.deblurring.data.exposure.bin_edges`).

    >>> spikes = np.zeros((16, 1, 2), np.uint8)
    >>> spikes[:, 0, 0] = 1  # one pixel fires in every step, the other never
    >>> voxelize(spikes, 4)[:, 0].tolist()
    [[3, 0], [1, 0], [2, 0], [10, 0]]
    """
    if spikes.ndim != 3 or spikes.dtype not in (np.uint8, np.bool_) or spikes.max(initial=0) > 1:
        raise DataError(
            f"spikes: found {spikes.dtype} of shape {spikes.shape}, expected uint8 (T, H, W) of 0 "
            "and 1"
        )
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
        DataError: if K and T do not fit together (see
            :func:`vrtspike.deblurring.data.exposure.bin_edges`).
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


@functools.cache
def _byte_counts() -> NDArray[np.float64]:
    """The eight bits of every byte, each in a byte of its own: (1, 256)."""
    every = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return every.view(np.float64).reshape(1, 256)


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of gain x rate over ``count`` voxels."""

    mean: float
    std: float
    count: int


def normalize_counts(
    counts: torch.Tensor, steps: torch.Tensor, gain: torch.Tensor, mean: float, std: float
) -> torch.Tensor:
    """Turn counts into what the model eats: (gain * count / steps - mean) / std.

    Args:
        counts: uint8 (..., K, h, w).
        steps: integers (..., K), spike steps of each bin, on the same device, as all tensors here.
        gain: float32 of the first axes of ``...``: brightness of a spike rate of 1.
        mean: mean of gain x rate over the training split.
        std: its standard deviation, > 0.

    Returns:
        float32 (..., K, h, w).

    >>> import torch
    >>> counts = torch.tensor([6, 2], dtype=torch.uint8).view(2, 1, 1)  # two bins of one pixel
    >>> steps, gain = torch.tensor([8, 4]), torch.tensor(2.0)
    >>> normalize_counts(counts, steps, gain, mean=1.0, std=0.5).flatten()
    tensor([1., 0.])
    """
    each = gain.reshape(*gain.shape, *[1] * (steps.ndim - gain.ndim)) / steps
    return (counts * each[..., None, None]).sub_(mean).div_(std)


def add_to_histogram(histogram: Histogram, counts: NDArray[np.uint8], spike_frames: int) -> None:
    """Count the voxels (K, h, w) of one exposure of T steps into ``histogram``, in place."""
    steps = bin_steps(spike_frames, len(counts))
    for value in np.unique(steps):
        found = np.bincount(counts[steps == value].ravel(), minlength=int(value) + 1)
        histogram[int(value)] = histogram.get(int(value), np.zeros(1, np.int64)) + found


def histogram_statistics(sequences: Sequence[tuple[float, Histogram]]) -> Statistics:
    """Mean and standard deviation (of the population) of gain * count / steps, in float64.

    Sums are rounded once, at their end, so the order of the sequences changes nothing.

    Args:
        sequences: gain and histogram of each sequence.

    Raises:
        DataError: if there is no voxel or all are equal (nothing to standardise by).

    >>> histogram_statistics([(2.0, {4: np.array([1, 0, 0, 0, 1])})])  # rates 0 and 1, gain 2
    Statistics(mean=1.0, std=1.0, count=2)
    """
    found = [
        (voxels, gain * np.arange(len(voxels)) / steps)
        for gain, histogram in sequences
        for steps, voxels in histogram.items()
    ]
    count = sum(int(voxels.sum()) for voxels, _ in found)
    if count == 0:
        raise DataError("no voxels to take statistics from: the training split is empty")
    mean = math.fsum(x for voxels, values in found for x in voxels * values) / count
    squares = math.fsum(x for voxels, values in found for x in voxels * (values - mean) ** 2)
    std = math.sqrt(squares / count)
    if std == 0.0:
        raise DataError(
            "all voxels of the training split are equal: the spike files hold no signal"
        )
    return Statistics(mean, std, count)
