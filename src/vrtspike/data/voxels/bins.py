"""The bins of a voxel grid, before and after the sharp instant of an exposure.

Edge K // 2 of K bins is that instant in exposures of every length, so that a model finds it in one
place. Bins are narrowest there, which gains 0.5 dB over equal bins (docs/experiments.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import Exposure
from vrtspike.system.errors import DataError


def max_bins(exposure: Exposure) -> int:
    """Return the largest K that an exposure can fill.

    >>> max_bins(Exposure(0, 56, 24))
    49
    """
    before = _sharp_edge(exposure)
    # K // 2 bins lie before the edge, the others after it.
    bins_by_sides = min(2 * before + 1, 2 * (exposure.steps - before))
    return min(exposure.steps, max(1, bins_by_sides))


def _sharp_edge(exposure: Exposure) -> int:
    """Return the step of the sharp instant, counted from the start of the exposure."""
    return int(exposure.sharp) - exposure.start


def bin_edges(exposure: Exposure, bins: int) -> NDArray[np.int64]:
    """Return the edges of the bins in steps from the exposure's start: int64 (K + 1,).

    Edge K // 2 is the step of the sharp instant; each of the two parts is divided by :func:`_half`.
    A single bin holds the whole exposure.

    Raises:
        DataError: if K is not between 1 and :func:`max_bins` (bins would be empty) or a count
            could exceed 255.

    >>> bin_edges(Exposure(0, 56, 24), 4).tolist()
    [0, 21, 24, 28, 56]
    """
    if bins < 1:
        raise DataError(f"{bins} voxel bins: at least 1 is needed (DATA.NUM_VOXEL_BINS)")
    limit = max_bins(exposure)
    middle = _sharp_edge(exposure)
    length = exposure.steps
    if bins > limit:
        raise DataError(
            f"{bins} voxel bins for {length} steps: bins would be empty, half of them "
            f"lie before the sharp frame (step {middle}); set DATA.NUM_VOXEL_BINS to at most "
            f"{limit}"
        )
    steps = np.array([length], dtype=np.int64)
    if bins > 1:
        before = _half(middle, bins // 2)
        steps = np.concatenate([before[::-1], _half(length - middle, bins - bins // 2)])
    if steps.max() > 255:
        raise DataError(
            f"{bins} voxel bins for {length} steps: a bin holds more than 255 steps "
            "and its counts do not fit in 8 bits; raise DATA.NUM_VOXEL_BINS"
        )
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(steps)])


def _half(steps: int, bins: int) -> NDArray[np.int64]:
    """Return widths of the bins on one side of the sharp frame, from there outwards: int64 (bins,).

    Fine next to the sharp frame, whose brightness a model restores, and coarser farther away: bin j
    of n ends j + (steps - n) (j / n)^3 steps from it. A linear regression of the sharp frame from
    equal bins loses 0.5 dB (``benchmarks/learning.py``). SpkDeblurNet (Chen et al., NeurIPS 2023)
    gives its network the central steps unbinned.

    Args:
        steps: their sum, at least ``bins``.
        bins: n, at least 1.
    """
    number = np.arange(bins + 1, dtype=np.int64)
    return np.diff(number + (steps - bins) * number**3 // bins**3)


def bin_table(exposures: Sequence[Exposure], bins: int) -> NDArray[np.uint8]:
    """Return the number of steps in each bin of several exposures: uint8 (exposures, K).

    Args:
        exposures: at least one.
        bins: K.

    >>> bin_table([Exposure(0, 16, 4), Exposure(0, 24, 8)], 4).tolist()
    [[3, 1, 2, 10], [7, 1, 2, 14]]
    """
    steps = [np.diff(bin_edges(exposure, bins)) for exposure in exposures]
    return np.stack(steps).astype(np.uint8)
