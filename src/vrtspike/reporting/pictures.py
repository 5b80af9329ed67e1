"""Compression of a page's pictures to a size limit."""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError
from vrtspike.io.images import read_gray, read_rgb
from vrtspike.system.cpus import available_cpus

ERROR = "error"
THUMBNAIL = "thumbnail"
ERROR_TOP = 32
"""Difference in grey values that error maps show in the brightest colour."""

GRAY = frozenset({"spikes"})
"""Pictures that are grey."""

THREADS = 4
"""As the rule asks for."""

THUMBNAIL_SIDE = 176
_LOSSLESS = 101
_COLOURS = cv2.COLORMAP_INFERNO

Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Encoding:
    """Size and quality of pictures in WebP.

    Attributes:
        side: longest side in pixels; larger pictures are downscaled. None: full size.
        quality: 1 to 100; 101 is lossless.
    """

    side: int | None
    quality: int

    def __str__(self) -> str:
        """The encoding in words, for the page.

        >>> str(Encoding(960, 70)), str(Encoding(None, 101))
        ('WebP, quality 70, longest side 960 pixels', 'WebP, without loss, full size')
        """
        quality = "without loss" if self.quality >= _LOSSLESS else f"quality {self.quality}"
        size = "full size" if self.side is None else f"longest side {self.side} pixels"
        return f"WebP, {quality}, {size}"


ENCODINGS = (
    Encoding(None, _LOSSLESS),
    Encoding(None, 92),
    Encoding(None, 84),
    Encoding(1280, 76),
    Encoding(1280, 64),
    Encoding(960, 68),
    Encoding(960, 56),
    Encoding(720, 56),
    Encoding(560, 50),
    Encoding(400, 44),
)
"""From the best to the smallest."""


@dataclass(frozen=True)
class Pictures:
    """The pictures of some examples.

    Attributes:
        encoding: of all pictures.
        of: pictures by index of the example and kind, WebP in base64, with the added kinds
            ``error`` and ``thumbnail``; not of all examples if even the smallest encoding is too
            large.
    """

    encoding: Encoding
    of: Mapping[int, Mapping[str, str]]


def error_map(restored: Picture, sharp: Picture) -> Picture:
    """Error map of a frame, in colours from black (equal) to light yellow.

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
    """Nine colours of :func:`error_map` from 0 to ``ERROR_TOP``, in CSS."""
    levels = np.linspace(0, 255, 9).round().astype(np.uint8)[None]
    colours = cv2.applyColorMap(levels, _COLOURS)[0, :, ::-1]
    return [f"rgb({r} {g} {b})" for r, g, b in colours.tolist()]


def encode(picture: Picture, encoding: Encoding) -> bytes:
    """A picture as WebP.

    Args:
        picture: uint8 (H, W, 3) RGB or (H, W).
        encoding: how.
    """
    longest = max(picture.shape[:2])
    if encoding.side is not None and longest > encoding.side:
        height, width = (max(1, round(s * encoding.side / longest)) for s in picture.shape[:2])
        picture = np.asarray(
            cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8
        )
    if picture.ndim == 3:
        picture = np.ascontiguousarray(picture[..., ::-1])
    done, contents = cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, encoding.quality])
    if not done:
        raise DataError("OpenCV cannot write WebP on this machine; install opencv-python-headless")
    return contents.tobytes()


def encode_examples(
    examples: Sequence[Mapping[str, Path]], budget: int, encodings: Sequence[Encoding] = ENCODINGS
) -> Pictures:
    """Pictures of examples in the best encoding that fits into a size limit.

    Args:
        examples: worst first; files by kind: ``blurry``, ``restored``, ``sharp``, and ``spikes`` if
            there are any.
        budget: characters of all pictures together.
        encodings: from the best to the smallest. If even the last is too large, examples are left
            out evenly.

    Raises:
        DataError: if a picture cannot be read.
    """

    @cache
    def encoded(number: int) -> list[dict[str, str]]:
        return _encode_all(examples, encodings[number])

    def fits(number: int) -> bool:
        return sum(map(_characters, encoded(number))) <= budget

    number = bisect_left(range(len(encodings) - 1), True, key=fits)
    found = encoded(number)
    sizes = np.array([_characters(each) for each in found], int)
    kept = np.arange(len(found))
    while len(kept) and sizes[kept].sum() > budget:
        # Evenly spaced, with the first and the last.
        kept = np.linspace(0, len(found) - 1, len(kept) - 1).astype(int)
    return Pictures(encodings[number], {place: found[place] for place in kept.tolist()})


def _characters(pictures: Mapping[str, str]) -> int:
    return sum(map(len, pictures.values()))


def _encode_all(examples: Sequence[Mapping[str, Path]], encoding: Encoding) -> list[dict[str, str]]:
    # OpenCV releases the GIL.
    with ThreadPoolExecutor(min(THREADS, available_cpus())) as threads:
        return list(threads.map(lambda files: _encode_example(files, encoding), examples))


def _encode_example(files: Mapping[str, Path], encoding: Encoding) -> dict[str, str]:
    pictures: dict[str, Picture] = {
        what: read_gray(path) if what in GRAY else read_rgb(path) for what, path in files.items()
    }
    restored, sharp = pictures["restored"], pictures["sharp"]
    if restored.shape != sharp.shape:
        raise DataError(
            f"{files['restored']}: {restored.shape[1]} x {restored.shape[0]} pixels, but "
            f"{files['sharp']} has {sharp.shape[1]} x {sharp.shape[0]}; evaluate again"
        )
    pictures[ERROR] = error_map(restored, sharp)
    encoded = {what: encode(picture, encoding) for what, picture in pictures.items()}
    encoded[THUMBNAIL] = encode(restored, Encoding(THUMBNAIL_SIDE, 60))
    return {what: base64.b64encode(contents).decode() for what, contents in encoded.items()}
