"""Voxel grids: the spikes of one exposure counted in K time bins.

The bins are those of :mod:`vrtspike.data.voxels.bins` and hold different numbers of steps. Counts
are stored, because they are small integers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.voxels.bins import bin_edges
from vrtspike.system.errors import DataError


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
            :func:`vrtspike.data.voxels.bins.bin_edges`).

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
    exposure = Exposure(0, len(spikes), sharp)
    return PackedSpikes.pack(spikes).counts(bin_edges(exposure, bins))
