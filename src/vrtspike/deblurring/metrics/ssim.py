"""SSIM as the video deblurring literature computes it: per frame, on 8-bit images."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.metrics.metric import FrameMetric, needs_nothing
from vrtspike.deblurring.rgb_images import PEAK, Image, require_pair, studio_luma

SSIM_WINDOW = 11
SSIM_SIGMA = 1.5
SSIM_K1 = 0.01
SSIM_K2 = 0.03


def ssim(restored: Image, sharp: Image) -> float:
    """Structural similarity of one frame, per RGB channel, averaged over channels and pixels.

    Wang et al., "Image quality assessment: from error visibility to structural similarity", IEEE
    TIP 2004: 11x11 Gaussian window with sigma 1.5, only where the window lies inside the image
    (valid region), K1 = 0.01, K2 = 0.03, range 255, moments weighted without sample correction.

    Args:
        restored: (H, W, 3) uint8 RGB, at least 11x11.
        sharp: the reference, same shape.

    Returns:
        at most 1, which equal images reach.

    >>> sharp = np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3)
    >>> ssim(sharp, sharp) == 1
    True
    >>> ssim(sharp // 2, sharp) < 1
    True
    """
    require_pair(restored, sharp)
    channels = [
        _ssim_of_planes(restored[..., c].astype(np.float64), sharp[..., c].astype(np.float64))
        for c in range(restored.shape[-1])
    ]
    return float(np.mean(channels))


def ssim_y(restored: Image, sharp: Image) -> float:
    """SSIM of one frame on the studio luma. Arguments as for :func:`ssim`."""
    require_pair(restored, sharp)
    return _ssim_of_planes(studio_luma(restored), studio_luma(sharp))


def _ssim_of_planes(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if min(a.shape) < SSIM_WINDOW:
        raise ValueError(
            f"SSIM needs images of at least {SSIM_WINDOW}x{SSIM_WINDOW}, got {a.shape}"
        )
    mean_a, mean_b = _window_mean(a), _window_mean(b)
    variance_a = _window_mean(a * a) - mean_a**2
    variance_b = _window_mean(b * b) - mean_b**2
    covariance = _window_mean(a * b) - mean_a * mean_b
    c1, c2 = (SSIM_K1 * PEAK) ** 2, (SSIM_K2 * PEAK) ** 2
    similarity = ((2 * mean_a * mean_b + c1) * (2 * covariance + c2)) / (
        (mean_a**2 + mean_b**2 + c1) * (variance_a + variance_b + c2)
    )
    return float(similarity.mean())


def _window_mean(plane: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaussian-weighted mean around each pixel of the valid region."""
    kernel = cv2.getGaussianKernel(SSIM_WINDOW, SSIM_SIGMA, cv2.CV_64F)
    radius = SSIM_WINDOW // 2
    filtered: NDArray[np.float64] = np.asarray(
        cv2.sepFilter2D(plane, cv2.CV_64F, kernel, kernel), dtype=np.float64
    )
    return filtered[radius:-radius, radius:-radius]


SSIM = FrameMetric(
    "ssim",
    "SSIM",
    "SSIM per frame and RGB channel, 11x11 Gaussian window, sigma 1.5, valid region, "
    "K1 0.01, K2 0.03, range 255, 8-bit; mean over channels, frames, then sequences",
    needs_nothing(ssim),
    least_side=SSIM_WINDOW,
)

SSIM_Y = FrameMetric(
    "ssim_y",
    "SSIM of Y",
    "SSIM as 'ssim', on Y (BT.601, studio range 16 to 235, not rounded)",
    needs_nothing(ssim_y),
    of_colour=False,
    least_side=SSIM_WINDOW,
)
