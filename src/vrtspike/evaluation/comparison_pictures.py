"""Comparison pictures: blurry, restored and sharp frames side by side."""

from __future__ import annotations

import math

import cv2
import numpy as np

from vrtspike.data.rgb_images import Image
from vrtspike.metrics.psnr import psnr

LABEL_HEIGHT = 24
GAP = 4
PICTURE_COLUMN_WIDTH = 480
_PAPER = 255
_INK = (30, 30, 30)


def comparison(blur: Image, restored: Image, sharp: Image) -> Image:
    """Blurry, restored and sharp frame side by side.

    Args:
        blur: the input, uint8 (H, W, 3).
        restored: the model's output, same shape.
        sharp: the reference, same shape.

    Returns:
        uint8 (h, w, 3), columns of at most ``PICTURE_COLUMN_WIDTH`` pixels.
    """
    panels = {
        f"blurry input {_decibel(psnr(blur, sharp))}": blur,
        f"restored {_decibel(psnr(restored, sharp))}": restored,
        "sharp": sharp,
    }
    strips = []
    for label, image in panels.items():
        shown = _fit(image)
        strip = np.concatenate([_label(label, shown.shape[1]), shown])
        strips.append(np.pad(strip, ((0, 0), (0, GAP), (0, 0)), constant_values=_PAPER))
    return np.concatenate(strips, axis=1)[:, :-GAP]


def _decibel(value: float) -> str:
    """Return a PSNR as text."""
    return f"{value:.2f} dB" if math.isfinite(value) else "identical"


def _fit(image: Image) -> Image:
    """Average large images down to the width of a column, and repeat the pixels of small ones."""
    height, width = image.shape[:2]
    if width <= PICTURE_COLUMN_WIDTH:
        factor = PICTURE_COLUMN_WIDTH // width
        return image.repeat(factor, axis=0).repeat(factor, axis=1)
    size = (PICTURE_COLUMN_WIDTH, max(1, round(height * PICTURE_COLUMN_WIDTH / width)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _label(text: str, width: int) -> Image:
    """Return a band with a text, uint8 (h, width, 3)."""
    band = np.full((LABEL_HEIGHT, width, 3), _PAPER, np.uint8)
    origin = (4, LABEL_HEIGHT - 8)
    cv2.putText(band, text, origin, cv2.FONT_HERSHEY_SIMPLEX, 0.5, _INK, 1, cv2.LINE_AA)
    return band
