"""Spike features at the scales of a U-Net, for a sensor of any resolution.

Scale s of the U-Net has sides of 1 / 2**s of the frames'; the middle is one scale below the others.
The spike pyramid has as many levels as the U-Net has scales without the middle. Its level 0 has the
sensor's resolution, and belongs to the scale of that resolution (*sensor scale*). Coarser scales
take the levels of their size, finer ones take level 0 enlarged, and the middle takes the coarsest
level. With four scales, the levels taken, and the changes of their size, are:

======  ============  =======  =======  =======  =======  ========
ratio   sensor scale  scale 0  scale 1  scale 2  scale 3  middle
======  ============  =======  =======  =======  =======  ========
1       0             0        1        2        3        3, x 1/2
2       1             0, x 2   0        1        2        3
4       2             0, x 4   0, x 2   0        1        3, x 2
======  ============  =======  =======  =======  =======  ========

The ratio is that of frame to sensor pixels along each side, and 2 with the usual sensor. The middle
takes the coarsest level with any sensor, so that all levels reach the picture: a parameter without
a gradient would end training on several processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

from vrtspike.system.rounding import ceil_div


def scale_of_sensor(rows: int, sensor_rows: int, scales: int) -> int:
    """Return the scale of a U-Net with the sensor's resolution, else the next finer one.

    Args:
        rows: rows of the frames.
        sensor_rows: rows of spike pixels.
        scales: scales of the U-Net without the middle; the coarsest is the last to be returned.

    >>> [scale_of_sensor(64, sensor_rows, scales=4) for sensor_rows in (64, 32, 16, 24, 1)]
    [0, 1, 2, 1, 3]
    """
    fitting = [scale for scale in range(1, scales) if sensor_rows <= side_at(rows, scale)]
    return max(fitting, default=0)


def side_at(side: int, scale: int) -> int:
    """Return the length at a scale of a side of the full size, rounded up."""
    return ceil_div(side, 2**scale)


def features_of_scales(
    levels: Sequence[Tensor], sensor_scale: int, size: Sequence[int]
) -> list[Tensor]:
    """Return the spike features for each scale of a U-Net, the middle last.

    Args:
        levels: (N, C, h, w) each, the finest first, with half the resolution of the one before.
        sensor_scale: scale of the finest level, see :func:`scale_of_sensor`.
        size: height and width of the frames, multiples of those of a pixel of the middle.

    Returns:
        (N, C, height / 2**s, width / 2**s) for each scale s.
    """
    middle = len(levels)
    features = []
    for scale in range(middle + 1):
        level = middle - 1 if scale == middle else max(scale - sensor_scale, 0)
        scale_of_level = sensor_scale + level
        resized = halve_or_double(levels[level], scale_of_level - scale)
        height, width = (side // 2**scale for side in size)
        features.append(resized[..., :height, :width])
    return features


def halve_or_double(features: Tensor, doublings: int) -> Tensor:
    """Return features enlarged (bilinear) or reduced (mean) by a power of two.

    Args:
        features: (N, C, h, w).
        doublings: number of times that height and width are doubled; below 0, halved.
    """
    if doublings > 0:
        return functional.interpolate(features, scale_factor=2**doublings, mode="bilinear")
    if doublings < 0:
        return functional.avg_pool2d(features, 2**-doublings)
    return features
