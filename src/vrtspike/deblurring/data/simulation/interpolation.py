"""What a sensor sees between two frames of a video."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError

Interpolation = Literal["linear", "flow"]

Between: TypeAlias = Callable[[float], NDArray[np.float32]]
"""The picture at a fraction of the way from the first frame (0) to the second (1)."""

MIN_SIDE = 16
"""Smallest side that optical flow works on."""


def interpolate(
    first: NDArray[np.float32], second: NDArray[np.float32], how: Interpolation
) -> Between:
    """Pictures between two frames.

    Args:
        first: grey frame (H, W), 0 to 1.
        second: the next frame.
        how: ``linear`` mixes the two frames, so that what moves fades out here and in there;
            ``flow`` moves it (dense inverse search, both frames warped to the time and mixed).

    Raises:
        DataError: if frames are too small for optical flow.
    """
    return _linear(first, second) if how == "linear" else _flow(first, second)


def _linear(first: NDArray[np.float32], second: NDArray[np.float32]) -> Between:
    difference = second - first
    return lambda fraction: first + np.float32(fraction) * difference


def _flow(first: NDArray[np.float32], second: NDArray[np.float32]) -> Between:
    height, width = first.shape
    if min(height, width) < MIN_SIDE:
        raise DataError(
            f"sensor frames of {height} x {width} are too small for optical flow (at least "
            f"{MIN_SIDE} x {MIN_SIDE}); use linear interpolation"
        )
    bytes_0, bytes_1 = (np.rint(255 * frame).astype(np.uint8) for frame in (first, second))
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    still = np.zeros((height, width, 2), np.float32)
    forward = search.calc(bytes_0, bytes_1, still.copy())
    backward = search.calc(bytes_1, bytes_0, still)
    y, x = np.mgrid[:height, :width].astype(np.float32)

    def warped(frame: NDArray[np.float32], motion: NDArray[np.float32]) -> NDArray[np.float32]:
        from_x, from_y = x - motion[..., 0], y - motion[..., 1]
        moved = cv2.remap(frame, from_x, from_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(moved, dtype=np.float32)

    def between(fraction: float) -> NDArray[np.float32]:
        share = np.float32(fraction)
        early = warped(first, share * forward)
        late = warped(second, (1 - share) * backward)
        return (1 - share) * early + share * late

    return between
