"""Normalisation of voxel counts with the mean and standard deviation of a training split.

The input of a model is gain x count / steps, a brightness (see :mod:`vrtspike.data.voxels.gain`),
standardised with the mean and the standard deviation of the training split.
:func:`normalize_counts` is the only definition of it. It is linear on purpose: the mean of a
logarithm of few spikes depends on their number, so that a model of log1p(rate) would see another
brightness with another threshold, whatever the gain (docs/experiments.md, "Spike input").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vrtspike.system.errors import DataError

if TYPE_CHECKING:
    import torch

Histogram = dict[int, NDArray[np.int64]]
"""Number of pixels by steps in the bin and count: {steps: array where [c] counts value c}."""


@dataclass(frozen=True)
class VoxelStatistics:
    """Mean and standard deviation of gain x rate over ``count`` voxels."""

    mean: float
    std: float
    count: int


def normalize_counts(
    counts: torch.Tensor, steps: torch.Tensor, gain: torch.Tensor, mean: float, std: float
) -> torch.Tensor:
    """Standardise counts for the model: (gain * count / steps - mean) / std.

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
    missing_axes = steps.ndim - gain.ndim
    factors = gain.reshape(*gain.shape, *[1] * missing_axes) / steps
    return (counts * factors[..., None, None]).sub_(mean).div_(std)


def add_to_histogram(
    histogram: Histogram, counts: NDArray[np.uint8], steps: NDArray[np.integer]
) -> None:
    """Count the voxels (K, h, w) of one exposure, of ``steps`` (K,), into ``histogram``."""
    for value in np.unique(steps).tolist():
        voxels = np.bincount(counts[steps == value].ravel(), minlength=value + 1)
        histogram[value] = histogram.get(value, np.zeros(1, np.int64)) + voxels


def histogram_statistics(
    sequences: Sequence[tuple[float, Mapping[str, Sequence[int]]]],
) -> VoxelStatistics:
    """Return mean and standard deviation (of the population) of gain * count / steps, in float64.

    Sums are rounded once, at their end, so the order of the sequences changes nothing.

    Args:
        sequences: gain and histogram of each sequence, from the manifest of its store.

    Raises:
        DataError: if all voxels are equal (nothing to standardise by).

    >>> histogram_statistics([(2.0, {"4": [1, 0, 0, 0, 1]})])  # rates 0 and 1, gain 2
    VoxelStatistics(mean=1.0, std=1.0, count=2)
    """
    parts = []
    for gain, histogram in sequences:
        for steps, voxels in histogram.items():
            values = gain * np.arange(len(voxels)) / int(steps)
            parts.append((np.array(voxels, np.int64), values))
    count = sum(int(voxels.sum()) for voxels, _ in parts)
    sums = [voxels * values for voxels, values in parts]
    mean = math.fsum(np.concatenate(sums)) / count
    squares = [voxels * (values - mean) ** 2 for voxels, values in parts]
    std = math.sqrt(math.fsum(np.concatenate(squares)) / count)
    if std == 0.0:
        raise DataError(
            "all voxels of the training split are equal: the spike files hold no signal"
        )
    return VoxelStatistics(mean, std, count)
