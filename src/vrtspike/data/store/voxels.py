"""Voxel grids: the spikes of one exposure counted in K time bins, and their normalisation.

The bins are those of :mod:`vrtspike.data.bins` and hold different numbers of steps. Counts are
stored (they are small integers); the input of a model is gain x count / steps, a brightness (see
:class:`GainMeter`), standardised with the mean and the standard deviation of the training split.
:func:`normalize_counts` is the only definition of that. The function is linear on purpose: the mean
of a logarithm of few spikes depends on their number, so a model of log1p(rate) sees another
brightness if the threshold differs, whatever the gain. At commit 89737ed3 the linear regression of
``benchmarks/learning.py`` lost 13 to 18 dB from threshold 2 to 4 with the logarithm, 3 without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.bins import bin_edges
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.io.images import luma, shrink
from vrtspike.system.errors import DataError

if TYPE_CHECKING:
    import torch

Histogram = dict[int, NDArray[np.int64]]
"""Number of pixels by steps in the bin and count: {steps: array where [c] counts value c}."""


def voxelize(spikes: NDArray[np.uint8], bins: int, sharp: float) -> NDArray[np.uint8]:
    """Count the spikes of one exposure per bin and pixel.

    Args:
        spikes: uint8 (T, H, W) of 0 and 1, exactly the exposure's steps.
        bins: K.
        sharp: the step that the sharp frame shows, counted from the first of these; 4 (N - 1) for
            an exposure of N source frames of Spk-GoPro.

    Returns:
        uint8 (K, H, W) counts.

    Raises:
        DataError: if the array is another one, or K and T do not fit together (see
            :func:`vrtspike.data.bins.bin_edges`).

    >>> spikes = np.zeros((16, 1, 2), np.uint8)
    >>> spikes[:, 0, 0] = 1  # one pixel fires in every step, the other never
    >>> voxelize(spikes, 4, sharp=4)[:, 0].tolist()
    [[3, 0], [1, 0], [2, 0], [10, 0]]
    """
    if spikes.ndim != 3 or spikes.dtype not in (np.uint8, np.bool_) or spikes.max(initial=0) > 1:
        raise DataError(
            f"spikes: found {spikes.dtype} of shape {spikes.shape}, expected uint8 (T, H, W) of 0 "
            "and 1"
        )
    return voxelize_packed(PackedSpikes.pack(spikes), bins, sharp)


def voxelize_packed(spikes: PackedSpikes, bins: int, sharp: float) -> NDArray[np.uint8]:
    """Like :func:`voxelize`, from packed spikes and several times faster.

    Args:
        spikes: (T, H, W).
        bins: K.
        sharp: as for :func:`voxelize`.

    Returns:
        uint8 (K, H, W) counts.

    Raises:
        DataError: if K and T do not fit together (see
            :func:`vrtspike.data.bins.bin_edges`).
    """
    return spikes.counts(bin_edges(Exposure(0, len(spikes), sharp), bins))


@dataclass(frozen=True)
class Statistics:
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
) -> Statistics:
    """Return mean and standard deviation (of the population) of gain * count / steps, in float64.

    Sums are rounded once, at their end, so the order of the sequences changes nothing.

    Args:
        sequences: gain and histogram of each sequence, from the manifest of its store.

    Raises:
        DataError: if all voxels are equal (nothing to standardise by).

    >>> histogram_statistics([(2.0, {"4": [1, 0, 0, 0, 1]})])  # rates 0 and 1, gain 2
    Statistics(mean=1.0, std=1.0, count=2)
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
    return Statistics(mean, std, count)


class GainMeter:
    """The sensitivity of a sensor: the brightness of a spike rate of 1.

    An integrate-and-fire pixel with threshold theta fires at a rate of grey / theta, so one scene
    gives half the spikes to a sensor with twice the threshold. Mean spikes and blurry frame show
    the same light, up to that factor: the gain is its least-squares estimate over a sequence,
    gain = sum(luma(blur) r) / sum(r^2), r the mean rate; gain x rate is the input of the model.
    Sensors that differ in threshold only then have nearly the same voxels.

    Sums run over all frames and spike pixels; luma is in [0, 1], averaged over the area of a spike
    pixel; r is the spikes of an exposure divided by its T steps. Two numbers a frame are kept, and
    the result does not depend on the order of the frames.
    """

    def __init__(self) -> None:
        self._sums: list[tuple[float, float]] = []

    def add(self, blur: NDArray[np.uint8], spikes: NDArray[np.number], steps: int) -> None:
        """Take in one exposure.

        Args:
            blur: uint8 (H, W, 3) RGB.
            spikes: (h, w), those of all steps with the shutter open.
            steps: T, the number of these steps.
        """
        total = spikes.astype(np.float64)
        gray = shrink(luma(blur), *total.shape).astype(np.float64)
        # Both sums are exact in float64 where areas are powers of two: integers over 4, say.
        light = float(np.vdot(gray, total)) / (255 * steps)
        self._sums.append((light, float(np.vdot(total, total)) / steps**2))

    def gain(self, name: str) -> float:
        """Return the gain of all exposures so far, > 0; theta for an ideal sensor.

        Args:
            name: name of the sequence, for the message.

        Raises:
            DataError: if there is not a single spike, or frames are black wherever there are some.
        """
        light, squares = zip(*self._sums, strict=True)
        products = math.fsum(light)
        if products == 0:
            raise DataError(
                f"{name}: not a single spike where the blurry frames ({len(light)}) show light, so "
                "nothing says how sensitive the sensor is; give frames and spikes of one scene"
            )
        return products / math.fsum(squares)
