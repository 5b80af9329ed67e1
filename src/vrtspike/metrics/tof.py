"""tOF: distance of the motion in restored frames from that in sharp ones; lower is better."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.rgb_images import Image, require_pair
from vrtspike.metrics.metric import FunctionMetric
from vrtspike.system.errors import DataError

BLOCK = 32
"""Sides of the compared area are multiples of this many pixels."""
BORDER = 8
"""Minimum pixels left out on either side, because flow is unknown there."""


def optical_flow(before: Image, after: Image) -> NDArray[np.float32]:
    """Dense optical flow after Farnebäck, "Two-frame motion estimation", SCIA 2003.

    The parameters are those of Chu et al. (see :func:`flow_distance`): 3 levels of half the size
    each, windows of 15 pixels, 3 iterations, polynomials over 5 pixels with sigma 1.2, on the luma
    as 8-bit grey values.

    Args:
        before: (H, W, 3) uint8 RGB.
        after: the next frame, same shape.

    Returns:
        (H, W, 2) float32: pixels to the right and down that each pixel of ``before`` moves.
    """
    require_pair(after, before)
    gray = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (before, after)]
    # OpenCV's types do not allow None for the initial flow, which is an output here.
    flow = cv2.calcOpticalFlowFarneback(*gray, None, 0.5, 3, 15, 3, 5, 1.2, 0)  # type: ignore[call-overload]
    return np.asarray(flow, dtype=np.float32)


def flow_distance(restored: NDArray[np.float32], sharp: NDArray[np.float32]) -> float:
    """Return mean length of the difference of two flows, in pixels, over the middle of the frame.

    tOF of Chu et al., "Learning temporal coherence via self-supervision for GAN-based video
    generation", ACM TOG 2020, as their published program computes it: the Euclidean length
    at every pixel of the area of :func:`middle`.

    Args:
        restored: (H, W, 2), flow between two restored frames.
        sharp: (H, W, 2), flow between the sharp ones.

    >>> still = np.zeros((64, 64, 2), np.float32)
    >>> flow_distance(still + np.array([3, 4], np.float32), still)
    5.0
    """
    rows = middle(sharp.shape[0])
    columns = middle(sharp.shape[1])
    difference = (restored - sharp)[rows, columns].astype(np.float64)
    return float(np.sqrt(np.square(difference).sum(axis=-1)).mean())


def tof(restored: tuple[Image, Image], sharp: tuple[Image, Image]) -> float:
    """Return the :func:`flow_distance` of the motion between two frames, uint8 (H, W, 3) RGB."""
    return flow_distance(optical_flow(*restored), optical_flow(*sharp))


def middle(side: int) -> slice:
    """Return the largest multiple of ``BLOCK`` pixels that leaves ``BORDER`` pixels on either side.

    Raises:
        DataError: if the side is too short for one block.

    >>> middle(720), middle(1280)
    (slice(8, 712, None), slice(16, 1264, None))
    """
    length = (side - 2 * BORDER) // BLOCK * BLOCK
    if length < BLOCK:
        raise DataError(
            f"tOF: found sides of {side} pixels, expected {BLOCK + 2 * BORDER} or more; leave it "
            "out of TEST.METRICS"
        )
    start = (side - length) // 2
    return slice(start, start + length)


TOF = FunctionMetric(
    "tof",
    "tOF",
    "tOF in pixels: mean length of the difference between the optical flow of neighbouring frames "
    "and that of the sharp ones (Farneback, on 8-bit grey values, the middle of the frame in "
    "multiples of 32 pixels), from the second frame on; mean over frames, then over sequences",
    tof,
    unit="px",
    decimals=3,
    larger_is_better=False,
    measures_motion=True,
    is_color_sensitive=False,
)
