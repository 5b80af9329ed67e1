"""Encoding of pictures for pages as WebP, within a size limit."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.io.images import read_gray, read_rgb
from vrtspike.reporting.error_maps import ERROR, ColorMap, error_map
from vrtspike.reporting.task_report import ExampleKinds
from vrtspike.system.cpus import available_cpus

THREADS = 4
"""Threads of the rule."""

SAMPLE = 16
"""Frames that are encoded first, if there are more."""
MAX_EXCESS = 1.1
"""A level is tried on all frames only if the sample predicts at most this multiple of the size
limit."""

THUMBNAIL = (176, 60)
"""Longest side and quality of the thumbnails."""
LEVELS = ((1920, 90), (1280, 76), (960, 62), (720, 56), (400, 44))
"""Longest side in pixels and quality of WebP, from the best to the smallest."""

Encoded = TypeVar("Encoded", str, bytes)
"""An encoded picture."""


def encode(picture: ColorMap, side: int, quality: int) -> str:
    """Encode a picture as WebP in base64; as :func:`encode_webp`."""
    return base64.b64encode(encode_webp(picture, side, quality)).decode()


def encode_webp(picture: ColorMap, side: int, quality: int) -> bytes:
    """Encode a picture as WebP.

    Args:
        picture: picture, uint8 (H, W, 3) RGB or (H, W) grey.
        side: longest side in pixels; larger pictures are downscaled.
        quality: quality of WebP, 1 to 100.
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
    return contents.tobytes()


def encode_examples(
    examples: Sequence[tuple[Mapping[str, Path], ExampleKinds]], budget: int
) -> tuple[str, dict[int, Mapping[str, str]]]:
    """Encode the pictures of examples at the best of :data:`LEVELS` that fits into a size limit.

    Args:
        examples: for each frame, the worst first, the files of its pictures by kind, among them the
            result and the truth, and the kinds of its task.
        budget: maximum number of characters of all pictures together. If even the last level is too
            large, examples are left out evenly.

    Returns:
        the format of all pictures, in words; and pictures by index of the example and kind, WebP in
        base64, with the added kinds :data:`ERROR` and ``thumbnail``.

    Raises:
        DataError: if a picture cannot be read.
    """

    def encode_example(index: int, side: int, quality: int) -> dict[str, str]:
        files, kinds = examples[index]
        return _encode(files, kinds, side, quality)

    return encode_within(encode_example, len(examples), budget, LEVELS)


def encode_within(
    encode_pictures: Callable[[int, int, int], Mapping[str, Encoded]],
    count: int,
    budget: int,
    levels: Sequence[tuple[int, int]],
) -> tuple[str, dict[int, Mapping[str, Encoded]]]:
    """Encode the pictures of several frames at the best level that fits into a size limit.

    If there are many frames, a sample is encoded first, and levels at which it is far too large are
    skipped.

    Args:
        encode_pictures: encodes the pictures of a frame, given its index, longest side and quality;
            called from several threads.
        count: number of frames.
        budget: length of all encoded pictures together. If even the last level is too large, frames
            are left out evenly.
        levels: longest sides in pixels and qualities, from the best to the smallest.

    Returns:
        the format of all pictures, in words; and the encoded pictures by index and kind.
    """
    encoded: list[Mapping[str, Encoded]] = []
    # Threads suffice, because OpenCV releases the GIL.
    with ThreadPoolExecutor(min(THREADS, available_cpus())) as threads:
        for side, quality in levels:
            level = repeat(side), repeat(quality)
            is_last = (side, quality) == levels[-1]
            if count > SAMPLE and not is_last:
                sample = np.linspace(0, count - 1, SAMPLE).astype(int).tolist()
                mean = _lengths(list(threads.map(encode_pictures, sample, *level))).mean()
                if mean * count > MAX_EXCESS * budget:
                    continue
            encoded = list(threads.map(encode_pictures, range(count), *level))
            if _lengths(encoded).sum() <= budget:
                break
    sizes = _lengths(encoded)
    kept = np.arange(len(encoded))
    while len(kept) and sizes[kept].sum() > budget:
        # The kept frames are evenly spaced and include the first and the last one.
        kept = np.linspace(0, len(encoded) - 1, len(kept) - 1).astype(int)
    form = f"WebP of quality {quality}, at most {side} pixels wide or high"
    return form, {index: encoded[index] for index in kept.tolist()}


def _lengths(encoded: Sequence[Mapping[str, Encoded]]) -> NDArray[np.int64]:
    """Return the length of all pictures of each frame."""
    return np.array([sum(map(len, pictures.values())) for pictures in encoded], np.int64)


def _encode(
    files: Mapping[str, Path], kinds: ExampleKinds, side: int, quality: int
) -> dict[str, str]:
    """Encode the pictures of an example, with its error map and thumbnail."""
    pictures: dict[str, ColorMap] = {
        kind: read_gray(path) if kind in kinds.gray else read_rgb(path)
        for kind, path in files.items()
    }
    result = pictures[kinds.gallery["right"]]
    pictures[ERROR] = error_map(result, pictures[kinds.truth])
    encoded = {kind: encode(picture, side, quality) for kind, picture in pictures.items()}
    return encoded | {"thumbnail": encode(result, *THUMBNAIL)}
