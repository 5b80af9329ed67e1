"""SSIM of single frames: that of this project, and the variants of published results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.rgb_images import PEAK, Image, require_pair, studio_luma
from vrtspike.metrics.metric import FunctionMetric
from vrtspike.system.errors import DataError

SSIM_WINDOW = 11
SSIM_SIGMA = 1.5
SSIM_K1 = 0.01
SSIM_K2 = 0.03
UNIFORM_WINDOW = 7


def ssim(restored: Image, sharp: Image) -> float:
    """Structural similarity of one frame, per RGB channel, averaged over channels and pixels.

    Wang et al., "Image quality assessment: from error visibility to structural similarity", IEEE
    TIP 2004: 11x11 Gaussian window with sigma 1.5, only positions with the window inside the image
    (valid region), K1 = 0.01, K2 = 0.03, range 255, moments weighted without sample correction.

    Args:
        restored: (H, W, 3) uint8 RGB, at least 11x11.
        sharp: the reference, same shape.

    Returns:
        at most 1, the value of equal images.

    >>> sharp = np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3)
    >>> ssim(sharp, sharp) == 1
    True
    >>> ssim(sharp // 2, sharp) < 1
    True
    """
    require_pair(restored, sharp)
    return ssim_of_values(restored, sharp)


def ssim_y(restored: Image, sharp: Image) -> float:
    """SSIM of one frame on the studio luma. Arguments as for :func:`ssim`."""
    require_pair(restored, sharp)
    return ssim_of_values(studio_luma(restored), studio_luma(sharp))


def ssim_of_values(a: NDArray[Any], b: NDArray[Any]) -> float:
    """:func:`ssim` of (H, W) or (H, W, C) on the scale of 0 to 255, rounded or not.

    Raises:
        DataError: if the window does not fit inside.
    """
    return _similarity(a, b, _gaussian, SSIM_WINDOW)


def ssim_uniform(a: NDArray[Any], b: NDArray[Any]) -> float:
    """SSIM as scikit-image computes it by default: 7x7 uniform window, sample covariance.

    Args:
        a: (H, W, C) with a range of 255.
        b: the same shape.

    Raises:
        DataError: if the window does not fit inside.
    """
    size = UNIFORM_WINDOW**2

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(cv2.blur(values, (UNIFORM_WINDOW, UNIFORM_WINDOW)))

    return _similarity(a, b, mean, UNIFORM_WINDOW, sample=size / (size - 1))


def ssim_3d(a: NDArray[Any], b: NDArray[Any]) -> float:
    """SSIM as MATLAB's ``ssim`` computes it of an RGB image, which it treats as a volume.

    The Gaussian window of 11x11x11, sigma 1.5, runs over height, width and channel with replicated
    borders. The mean is over all voxels.

    Args:
        a: (H, W, C) on the scale of 0 to 255.
        b: the same shape.
    """
    border = cv2.BORDER_REPLICATE
    size = (SSIM_WINDOW, 1)
    across = cv2.GaussianBlur(np.eye(a.shape[-1]), size, SSIM_SIGMA, borderType=border)

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return _gaussian(values, border) @ np.asarray(across, dtype=np.float64)

    return _similarity(a, b, mean, 1)


def _similarity(
    a: NDArray[Any],
    b: NDArray[Any],
    mean: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    window: int,
    *,
    sample: float = 1.0,
) -> float:
    """Return the mean SSIM over all values whose window is inside.

    Args:
        a: image with a range of 255.
        b: the same shape.
        mean: over the window about each value.
        window: its side; 1 for extended borders.
        sample: factor of variances and covariance.
    """
    if min(a.shape[:2]) < window:
        raise DataError(
            f"SSIM: found frames of {a.shape[0]} x {a.shape[1]} pixels, expected {window} or more; "
            "leave it out of TEST.METRICS"
        )
    a = a.astype(np.float64)
    b = b.astype(np.float64)
    mean_a = mean(a)
    mean_b = mean(b)
    variance_a = sample * (mean(a * a) - mean_a**2)
    variance_b = sample * (mean(b * b) - mean_b**2)
    covariance = sample * (mean(a * b) - mean_a * mean_b)
    c1 = (SSIM_K1 * PEAK) ** 2
    c2 = (SSIM_K2 * PEAK) ** 2
    similarity = ((2 * mean_a * mean_b + c1) * (2 * covariance + c2)) / (
        (mean_a**2 + mean_b**2 + c1) * (variance_a + variance_b + c2)
    )
    radius = window // 2
    height, width = a.shape[:2]
    return float(similarity[radius : height - radius, radius : width - radius].mean())


def _gaussian(values: NDArray[np.float64], border: int = cv2.BORDER_DEFAULT) -> NDArray[np.float64]:
    """Gaussian-weighted mean about each value, along height and width."""
    size = (SSIM_WINDOW, SSIM_WINDOW)
    means = cv2.GaussianBlur(values, size, SSIM_SIGMA, borderType=border)
    return np.asarray(means, dtype=np.float64)


SSIM = FunctionMetric(
    "ssim",
    "SSIM",
    "SSIM per frame and RGB channel, 11x11 Gaussian window, sigma 1.5, valid region, "
    "K1 0.01, K2 0.03, range 255, 8-bit; mean over channels, frames, then sequences",
    ssim,
)

SSIM_Y = FunctionMetric(
    "ssim_y",
    "SSIM of Y",
    "SSIM as 'ssim', on Y (BT.601, studio range 16 to 235, not rounded)",
    ssim_y,
    is_color_sensitive=False,
)
