"""PSNR and SSIM as the video deblurring literature computes them: per frame, on 8-bit images.

A figure of a sequence is the mean over its frames, the figure of a test set the mean over its
sequences. Pooling the squared error over frames before the logarithm gives other numbers (lower
by up to several dB) and is not done here.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

PEAK = 255.0
SSIM_WINDOW = 11
SSIM_SIGMA = 1.5
SSIM_K1 = 0.01
SSIM_K2 = 0.03

DEFINITIONS = {
    "psnr": "PSNR in dB per frame on 8-bit RGB, peak 255; mean over frames, then over sequences",
    "psnr_y": "PSNR in dB per frame on Y (BT.601, studio range 16 to 235, not rounded), peak 255; "
    "mean over frames, then over sequences",
    "ssim": "SSIM per frame and RGB channel, 11x11 Gaussian window, sigma 1.5, valid region, "
    "K1 0.01, K2 0.03, range 255, 8-bit; mean over channels, frames, then sequences",
    "ssim_y": "SSIM as 'ssim', on Y (BT.601, studio range 16 to 235, not rounded)",
    "lpips": "LPIPS 0.1 with the AlexNet backbone, per frame on 8-bit RGB; mean over frames, then "
    "over sequences; lower is better",
}
"""What each figure means, in the words that reports print."""

Image = NDArray[np.uint8]


def to_uint8(frames: torch.Tensor) -> Image:
    """Round a restored clip to the 8-bit images that are stored and measured.

    Args:
        frames: (..., 3, H, W), any float type, nominally in [0, 1]; values outside are clipped.

    Returns:
        (..., H, W, 3) uint8, nearest value.

    Raises:
        ValueError: if a value is not finite: such an output has no image.
    """
    values = frames.detach().float()
    if not torch.isfinite(values).all():
        raise ValueError("the frames hold values that are not finite")
    images = values.clamp(0, 1).mul(PEAK).round().to(torch.uint8)
    return images.movedim(-3, -1).contiguous().cpu().numpy()


def studio_luma(image: Image) -> NDArray[np.float64]:
    """Y of ITU-R BT.601 in the studio range, as MATLAB's ``rgb2ycbcr`` defines it, not rounded.

    Args:
        image: (H, W, 3) uint8 RGB.

    Returns:
        (H, W) float64 in [16, 235].
    """
    weights = np.array([65.481, 128.553, 24.966]) / PEAK
    return image.astype(np.float64) @ weights + 16.0


def psnr(restored: Image, sharp: Image) -> float:
    """Peak signal-to-noise ratio of one frame in dB: ``10 log10(255^2 / MSE)`` over all channels.

    Args:
        restored: (H, W, 3) uint8 RGB.
        sharp: the reference, same shape.

    Returns:
        dB; infinite for equal images.
    """
    _check_pair(restored, sharp)
    return _psnr_of_planes(restored.astype(np.float64), sharp.astype(np.float64))


def psnr_y(restored: Image, sharp: Image) -> float:
    """PSNR of one frame on :func:`studio_luma`, with peak 255. Arguments as for :func:`psnr`."""
    _check_pair(restored, sharp)
    return _psnr_of_planes(studio_luma(restored), studio_luma(sharp))


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
    """
    _check_pair(restored, sharp)
    channels = [
        _ssim_of_planes(restored[..., c].astype(np.float64), sharp[..., c].astype(np.float64))
        for c in range(restored.shape[-1])
    ]
    return float(np.mean(channels))


def ssim_y(restored: Image, sharp: Image) -> float:
    """SSIM of one frame on :func:`studio_luma`. Arguments as for :func:`ssim`."""
    _check_pair(restored, sharp)
    return _ssim_of_planes(studio_luma(restored), studio_luma(sharp))


METRICS: dict[str, Callable[[Image, Image], float]] = {
    "psnr": psnr,
    "psnr_y": psnr_y,
    "ssim": ssim,
    "ssim_y": ssim_y,
}
"""The metrics that need nothing but the two images, by the names TEST.METRICS uses."""


def _check_pair(restored: Image, sharp: Image) -> None:
    for name, image in (("restored", restored), ("sharp", sharp)):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
            raise ValueError(
                f"{name} must be uint8 (H, W, 3), got {image.dtype} of shape {image.shape}"
            )
    if restored.shape != sharp.shape:
        raise ValueError(f"shapes differ: restored {restored.shape}, sharp {sharp.shape}")


def _psnr_of_planes(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    error = float(np.mean(np.square(a - b)))
    return float("inf") if error == 0 else float(10 * np.log10(PEAK**2 / error))


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
