"""Similarity of pictures: band-pass, correlation, and the peak of a curve of correlations."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.system.rounding import ceil_div

FINE_SIGMA = 1.0
"""Standard deviation of the Gaussian that removes the noise of single pixels."""

PEAK_RADIUS = 4
"""Points on either side of a maximum through which a parabola is fitted."""

_BOX = 11


def band_pass(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Band-pass a picture (H, W): without the noise of single pixels, and without slow changes."""
    height, width = image.shape
    fine = cv2.GaussianBlur(image, (0, 0), FINE_SIGMA)
    # At half the size two boxes approximate a Gaussian of sigma 9: 4 (side^2 - 1) / 12 each.
    half_size = (ceil_div(width, 2), ceil_div(height, 2))
    half = cv2.resize(fine, half_size, interpolation=cv2.INTER_AREA)
    coarse = cv2.blur(cv2.blur(half, (_BOX, _BOX)), (_BOX, _BOX))
    return np.asarray(cv2.subtract(fine, cv2.resize(coarse, (width, height))), np.float32)


def correlation(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return correlation of two pictures without a mean, -1 to 1; that of a flat picture is 0."""
    norms = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    # Rounding leaves a little of a flat picture.
    if norms <= 1e-6:
        return 0.0
    return float(np.vdot(one, other)) / norms


def find_peak(curve: NDArray[np.float64], radius: int = PEAK_RADIUS) -> tuple[float, float]:
    """Place and height of the maximum; a parabola through its surroundings refines the place."""
    top = int(curve.argmax())
    first = max(0, top - radius)
    last = min(len(curve) - 1, top + radius)
    value = float(curve[top])
    if last - first < 2:
        return float(top), value
    x = np.arange(first, last + 1) - top
    a, b, _ = np.polyfit(x, curve[first : last + 1], 2)
    if a >= 0:
        return float(top), value
    return float(np.clip(top - b / (2 * a), first, last)), value
