"""PSNR, kinds of SSIM, and Y of images as NumPy and scikit-image compute them."""

from __future__ import annotations

from itertools import product

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


def volume_similarity(a: np.ndarray, b: np.ndarray) -> float:
    """SSIM of a volume, window by window, with the edge repeated on all three axes."""
    kernel = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    kernel /= kernel.sum()
    weights = kernel[:, None, None] * kernel[:, None] * kernel
    a, b = (np.pad(image.astype(float), 5, mode="edge") for image in (a, b))
    values = []
    for place in product(*(range(side - 10) for side in a.shape)):
        x, y = (image[tuple(slice(n, n + 11) for n in place)] for image in (a, b))
        mx, my = (weights * x).sum(), (weights * y).sum()
        vx, vy = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum()
        cov = (weights * (x - mx) * (y - my)).sum()
        c1, c2 = 2.55**2, 7.65**2
        values.append((2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    return float(np.mean(values))


def luma_of(image: np.ndarray) -> np.ndarray:
    """Y of ITU-R BT.601, 16 to 235."""
    return image.astype(float) @ np.array([65.481, 128.553, 24.966]) / 255 + 16
