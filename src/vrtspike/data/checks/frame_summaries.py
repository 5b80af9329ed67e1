"""Summaries of frames and spikes that :mod:`vrtspike.data.checks.consistency` compares.

A summary is small, so that three frames of a sequence fit into memory at any size.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.alignment import MIN_SIDE, MIN_TEXTURE, WINDOW
from vrtspike.data.checks.similarity import band_pass
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.io.images import shrink

COARSE = 16
"""RGB pixels along a side that are averaged to compare a blurry with a sharp frame; fewer in frames
of less than 128 pixels."""
THUMBNAIL_SIDE = 16
"""Rows and columns of the small picture by which copies are found."""
MIN_END_STEPS = 6
"""Minimum steps of an end of an exposure: with four steps, correct data were noisy enough to look
reversed, by 0.14; with eight steps of real data, they do not."""

_HIGH_PASS_SIDE = 22
"""Minimum side of a coarse picture for removing the brightness that all scenes share: bright sky
above dark ground."""
_BOX = 11

Gray = NDArray[np.float32]


class ImageSummary(NamedTuple):
    """Summary of a blurry or a sharp frame.

    Attributes:
        path: path of the frame, for messages.
        digest: digest of the grey picture, which is the same for a file that is saved again.
        coarse: grey picture averaged over areas of :data:`COARSE` pixels, less the mean of all; in
            large frames less a local mean instead.
        detail: energy of the Laplacian.
        colors: (h, w, 3), averaged like ``coarse``; each pixel less its mean, and less that of
            all.
        mean: mean of each channel.
        brightness: mean of the grey picture.
        spread: standard deviation of each channel, averaged like ``coarse``.
        contrast: standard deviation of the grey picture.
        thumbnail: grey picture of :data:`THUMBNAIL_SIDE` rows and columns.
    """

    path: str
    digest: str
    coarse: Gray
    detail: float
    colors: Gray
    mean: Gray
    brightness: float
    spread: Gray
    contrast: float
    thumbnail: NDArray[np.uint8]


class SpikeSummary(NamedTuple):
    """Summary of the spikes of an exposure; pictures are band-passed, at sensor size.

    Attributes:
        path: path of the spike file, for messages.
        digest: digest of the spikes.
        total: spikes of all pixels and steps.
        assessable: true if picture and sensor are rich and large enough for a verdict.
        blur: the blurry frame.
        mean: all steps together.
        scene: standard deviation of ``mean``, as a rate from 0 to 1.
        has_clear_ends: true if the contrast of a third of the steps exceeds the noise of its
            spikes. The rate of spikes is about half the grey value.
        first: the first third of the steps.
        last: the last third of the steps.
    """

    path: str
    digest: str
    total: int
    assessable: bool
    blur: Gray
    mean: Gray
    scene: float
    has_clear_ends: bool
    first: Gray
    last: Gray


class FrameSummary(NamedTuple):
    """Summary of a frame: its blurry and sharp pictures and its spikes."""

    blur: ImageSummary
    sharp: ImageSummary
    spikes: SpikeSummary | None = None


def to_gray(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luma of RGB (H, W, 3), rounded: (H, W)."""
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def summarize_image(path: str, picture: NDArray[np.uint8]) -> ImageSummary:
    """Summarise a frame.

    Args:
        path: path of the frame, for messages.
        picture: uint8 RGB (H, W, 3).
    """
    gray = to_gray(picture)
    laplacian = cv2.Laplacian(gray, cv2.CV_16S)
    detail = float(cv2.norm(laplacian, cv2.NORM_L2SQR)) / gray.size
    brightness, contrast = cv2.meanStdDev(gray)
    height, width = gray.shape
    side = max(1, min(COARSE, min(height, width) // 8))
    rows = max(1, height // side)
    columns = max(1, width // side)
    areas = shrink(picture, rows, columns).astype(np.float32)
    colors = areas - areas.mean(axis=2, keepdims=True)
    coarse = shrink(gray, rows, columns).astype(np.float32)
    if min(coarse.shape) >= _HIGH_PASS_SIDE:
        coarse -= cv2.blur(coarse, (_BOX, _BOX))
    else:
        coarse -= coarse.mean()
    return ImageSummary(
        path=path,
        digest=_digest(gray),
        coarse=coarse,
        detail=detail,
        colors=np.asarray(colors - colors.mean(axis=(0, 1)), np.float32),
        mean=np.asarray(areas.mean(axis=(0, 1)), np.float32),
        spread=np.asarray(areas.std(axis=(0, 1)), np.float32),
        brightness=float(brightness[0, 0]),
        contrast=float(contrast[0, 0]),
        thumbnail=shrink(gray, THUMBNAIL_SIDE, THUMBNAIL_SIDE),
    )


def summarize_spikes(path: str, spikes: PackedSpikes, blur: NDArray[np.uint8]) -> SpikeSummary:
    """Summarise the spikes of an exposure.

    Args:
        path: path of their file, for messages.
        spikes: (T, h, w).
        blur: the blurry frame, uint8 (H, W).
    """
    steps, height, width = spikes.shape
    third = steps // 3
    first = spikes.count_image(0, third)
    last = spikes.count_image(steps - third)
    summed = first + spikes.count_image(third, steps - third) + last
    mean = band_pass(summed)
    picture = band_pass(shrink(blur, height, width).astype(np.float32) / np.float32(255))
    # The mean of more steps is less noisy than that of the window which MIN_TEXTURE is for.
    min_contrast = min(MIN_TEXTURE, _min_texture(steps))
    is_large = min(height, width) >= MIN_SIDE
    scene = float(mean.std()) / steps
    return SpikeSummary(
        path=path,
        digest=_digest(spikes.subsampled.rows),
        total=round(summed.sum(dtype=np.float64)),
        assessable=float(picture.std()) >= min_contrast and is_large,
        blur=picture,
        mean=mean,
        scene=scene if is_large else 0.0,
        has_clear_ends=third >= MIN_END_STEPS and 2 * scene >= _min_texture(third),
        first=band_pass(first),
        last=band_pass(last),
    )


def _min_texture(steps: int) -> float:
    """Return the minimum contrast above the noise of this number of steps."""
    return float(MIN_TEXTURE * (WINDOW / max(steps, 1)) ** 0.5)


def _digest(values: NDArray[np.uint8]) -> str:
    """32 hexadecimal digits."""
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).hexdigest()
