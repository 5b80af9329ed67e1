"""The 8-bit images that metrics compare."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PEAK = 255.0

Image = NDArray[np.uint8]
"""RGB, (H, W, 3)."""


def studio_luma(image: Image) -> NDArray[np.float64]:
    """Y of ITU-R BT.601 in the studio range, as MATLAB's ``rgb2ycbcr`` defines it, not rounded.

    Args:
        image: (H, W, 3) uint8 RGB.

    Returns:
        (H, W) float64 in [16, 235].

    >>> black_and_white = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    >>> studio_luma(black_and_white).round(6).tolist()
    [[16.0, 235.0]]
    """
    weights = np.array([65.481, 128.553, 24.966]) / PEAK
    return image.astype(np.float64) @ weights + 16.0


def require_pair(restored: Image, sharp: Image) -> None:
    """Refuse what cannot be compared.

    Raises:
        ValueError: if one is not uint8 (H, W, 3), or their shapes differ.
    """
    for name, image in (("restored", restored), ("sharp", sharp)):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
            raise ValueError(
                f"{name} must be uint8 (H, W, 3), got {image.dtype} of shape {image.shape}"
            )
    if restored.shape != sharp.shape:
        raise ValueError(f"shapes differ: restored {restored.shape}, sharp {sharp.shape}")
