"""PSNR, SSIM and Y of 8-bit images as NumPy and scikit-image compute them."""

from __future__ import annotations

import numpy as np
from skimage.metrics import structural_similarity


def decibels(a: np.ndarray, b: np.ndarray) -> float:
    """PSNR in dB."""
    return float(10 * np.log10(255**2 / np.mean((a.astype(float) - b.astype(float)) ** 2)))


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """SSIM with the window of the literature, over its valid region."""
    _, full = structural_similarity(
        a.astype(float), b.astype(float), data_range=255, gaussian_weights=True, sigma=1.5,
        use_sample_covariance=False, full=True, channel_axis=-1 if a.ndim == 3 else None,
    )  # fmt: skip
    return float(full[5:-5, 5:-5].mean())


def luma_of(image: np.ndarray) -> np.ndarray:
    """Y of ITU-R BT.601, 16 to 235."""
    return image.astype(float) @ np.array([65.481, 128.553, 24.966]) / 255 + 16
