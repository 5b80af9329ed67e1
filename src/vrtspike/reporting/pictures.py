"""Compression of a page's pictures to a size limit."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.io.images import read_gray, read_rgb
from vrtspike.system.cpus import available_cpus

ERROR_TOP = 32
"""Difference in grey values that error maps show in the brightest colour."""

GRAY = frozenset({"spikes"})
"""Pictures that are grey."""

THREADS = 4
"""Threads of the rule."""

THUMBNAIL = (176, 60)
"""Longest side and quality of the thumbnails."""
LEVELS = ((1920, 90), (1280, 76), (960, 62), (720, 56), (400, 44))
"""Longest side in pixels and quality of WebP, from the best to the smallest."""

_COLOURS = cv2.COLORMAP_INFERNO

Picture = NDArray[np.uint8]


def error_map(restored: Picture, sharp: Picture) -> Picture:
    """Compute the error map of a frame, in colours from black (equal) to light yellow.

    Args:
        restored: uint8 (H, W, 3).
        sharp: the same shape.

    Returns:
        uint8 (H, W, 3) RGB: the mean absolute difference over the channels, ``ERROR_TOP`` grey
        values and more in the brightest colour.
    """
    difference = cv2.absdiff(restored, sharp).astype(np.float32).mean(axis=-1)
    scaled = np.rint(difference * (255 / ERROR_TOP)).clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(scaled, _COLOURS)[..., ::-1])


def error_colours() -> list[str]:
    """Return nine colours of :func:`error_map` from 0 to ``ERROR_TOP``, in CSS."""
    levels = np.linspace(0, 255, 9).round().astype(np.uint8)[None]
    colours = cv2.applyColorMap(levels, _COLOURS)[0, :, ::-1]
    return [f"rgb({r} {g} {b})" for r, g, b in colours.tolist()]


def encode(picture: Picture, side: int, quality: int) -> str:
    """Encode a picture as WebP in base64.

    Args:
        picture: uint8 (H, W, 3) RGB or (H, W).
        side: longest side in pixels; larger pictures are downscaled.
        quality: 1 to 100.
    """
    scale = side / max(picture.shape[:2])
    if scale < 1:
        height, width = (max(1, round(length * scale)) for length in picture.shape[:2])
        picture = np.asarray(
            cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8
        )
    if picture.ndim == 3:
        picture = np.ascontiguousarray(picture[..., ::-1])
    # Without WebP OpenCV raises an error.
    _, contents = cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, quality])
    return base64.b64encode(contents.tobytes()).decode()


def encode_examples(
    examples: Sequence[Mapping[str, Path]], budget: int
) -> tuple[str, dict[int, dict[str, str]]]:
    """Encode the pictures of examples at the best of :data:`LEVELS` that fits into a size limit.

    Args:
        examples: worst first; files by kind: ``blurry``, ``restored``, ``sharp``, and ``spikes`` if
            there are any.
        budget: characters of all pictures together. If even the last level is too large, examples
            are left out evenly.

    Returns:
        the format of all pictures, in words; and pictures by index of the example and kind, WebP in
        base64, with the added kinds ``error`` and ``thumbnail``.

    Raises:
        DataError: if a picture cannot be read.
    """
    # OpenCV releases the GIL.
    with ThreadPoolExecutor(min(THREADS, available_cpus())) as threads:
        for side, quality in LEVELS:
            encode_level = partial(_encode, side=side, quality=quality)
            encoded = list(threads.map(encode_level, examples))
            sizes = np.array([sum(map(len, example.values())) for example in encoded], int)
            if sizes.sum() <= budget:
                break
    kept = np.arange(len(encoded))
    while len(kept) and sizes[kept].sum() > budget:
        # Evenly spaced, with the first and the last.
        kept = np.linspace(0, len(encoded) - 1, len(kept) - 1).astype(int)
    form = f"WebP of quality {quality}, at most {side} pixels wide or high"
    return form, {index: encoded[index] for index in kept.tolist()}


def _encode(files: Mapping[str, Path], side: int, quality: int) -> dict[str, str]:
    """The pictures of an example, with its error map and thumbnail."""
    pictures: dict[str, Picture] = {
        kind: read_gray(path) if kind in GRAY else read_rgb(path) for kind, path in files.items()
    }
    pictures["error"] = error_map(pictures["restored"], pictures["sharp"])
    encoded = {kind: encode(picture, side, quality) for kind, picture in pictures.items()}
    return encoded | {"thumbnail": encode(pictures["restored"], *THUMBNAIL)}
