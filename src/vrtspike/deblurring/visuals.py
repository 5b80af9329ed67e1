"""Pictures to look at: blurry, restored and sharp side by side."""

from __future__ import annotations

import math

import cv2
import numpy as np

from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.rgb_images import Image

LABEL_HEIGHT = 24
GAP = 4
COLUMN_WIDTH = 480
_PAPER = 255
_INK = (30, 30, 30)


def comparison(blur: Image, restored: Image, sharp: Image | None = None) -> Image:
    """Blurry, restored and sharp frame side by side, with a detail of each below.

    The detail is taken where the blurry frame is furthest from the sharp one (without a sharp
    frame: from the restored one), at full resolution, so that a reader sees the pixels the figures
    are about.

    Args:
        blur: the input, uint8 (H, W, 3).
        restored: the model's output, same shape.
        sharp: the reference, same shape; None leaves its column and the figures out.

    Returns:
        uint8 (h, w, 3), columns of at most ``COLUMN_WIDTH`` pixels.
    """
    if sharp is None:
        panels = {"blurry input": blur, "restored": restored}
    else:
        panels = {
            f"blurry input {_decibel(psnr(blur, sharp))}": blur,
            f"restored {_decibel(psnr(restored, sharp))}": restored,
            "sharp": sharp,
        }
    width = blur.shape[1]
    factor = max(1, COLUMN_WIDTH // width)
    column = min(COLUMN_WIDTH, width * factor)
    zoom = max(1, round(3 * column / width))
    detail = _most_blurred(blur, restored if sharp is None else sharp, column // zoom)
    strips = []
    for label, image in panels.items():
        whole, part = _fit(image, column, factor), _enlarge(image[detail], zoom)
        beside = column - part.shape[1]
        part = np.pad(part, ((GAP, GAP), (0, beside), (0, 0)), constant_values=_PAPER)
        strip = np.concatenate([_label(label, column), whole, part])
        strips.append(np.pad(strip, ((0, 0), (0, GAP), (0, 0)), constant_values=_PAPER))
    return np.concatenate(strips, axis=1)[:, :-GAP]


def _decibel(value: float) -> str:
    return f"{value:.2f} dB" if math.isfinite(value) else "identical"


def _most_blurred(blur: Image, reference: Image, side: int) -> tuple[slice, slice]:
    """The window, ``side`` wide and 9/16 as high, with the largest difference."""
    height, width = blur.shape[:2]
    window_height, window_width = max(1, min(height, side * 9 // 16)), min(width, side)
    error = cv2.absdiff(blur, reference).astype(np.float32).sum(axis=-1)
    mean = cv2.boxFilter(error, -1, (window_width, window_height), anchor=(0, 0))
    inside = mean[: height - window_height + 1, : width - window_width + 1]
    row, column = np.unravel_index(int(inside.argmax()), inside.shape)
    return (
        slice(int(row), int(row) + window_height),
        slice(int(column), int(column) + window_width),
    )


def _fit(image: Image, column: int, factor: int) -> Image:
    """Large images are averaged down to the column's width, small ones repeat whole pixels."""
    height, width = image.shape[:2]
    if width <= column:
        return _enlarge(image, factor)
    size = (column, max(1, round(height * column / width)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _enlarge(image: Image, factor: int) -> Image:
    return image.repeat(factor, axis=0).repeat(factor, axis=1)


def _label(text: str, width: int) -> Image:
    band = np.full((LABEL_HEIGHT, width, 3), _PAPER, np.uint8)
    place = (4, LABEL_HEIGHT - 8)
    cv2.putText(band, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, _INK, 1, cv2.LINE_AA)
    return band
