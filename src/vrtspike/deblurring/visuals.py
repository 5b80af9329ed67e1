"""Pictures to look at: blurry, restored and sharp side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    rows, columns = _most_blurred(blur, restored if sharp is None else sharp, column // zoom)
    whole = [_labelled(label, _fit(image, column, factor)) for label, image in panels.items()]
    details = [_enlarge(image[rows, columns], zoom) for image in panels.values()]
    return np.concatenate([_strip(whole, column), _strip(details, column)])


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


def _strip(images: Sequence[Image], column: int) -> Image:
    """Images of equal size side by side in columns, on white, with a gap below."""
    height = images[0].shape[0]
    strip = np.full((height + GAP, len(images) * (column + GAP) - GAP, 3), _PAPER, np.uint8)
    for number, image in enumerate(images):
        left = number * (column + GAP)
        strip[:height, left : left + image.shape[1]] = image
    return strip


def _fit(image: Image, column: int, factor: int) -> Image:
    """Large images are averaged down to the column's width, small ones repeat whole pixels."""
    height, width = image.shape[:2]
    if width <= column:
        return _enlarge(image, factor)
    size = (column, max(1, round(height * column / width)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _enlarge(image: Image, factor: int) -> Image:
    return image.repeat(factor, axis=0).repeat(factor, axis=1)


def _labelled(label: str, image: Image) -> Image:
    band = np.full((LABEL_HEIGHT, image.shape[1], 3), _PAPER, np.uint8)
    place = (4, LABEL_HEIGHT - 8)
    cv2.putText(band, label, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, _INK, 1, cv2.LINE_AA)
    return np.concatenate([band, image])
