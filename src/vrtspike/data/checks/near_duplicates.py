"""Altered copies of training frames in the test split, found by their thumbnails.

A copy that was encoded as JPEG or made a little brighter has another digest, but nearly the same
thumbnail. The frames next to it differ more, unless nothing moves: a still scene gives no evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from vrtspike.data.checks.frame_summaries import THUMBNAIL_SIDE

Thumbnails: TypeAlias = NDArray[np.uint8]
"""(N, pixels) of the frames of a sequence, in order."""

MAX_COPY_DISTANCE = 0.8
"""Maximum root mean square, of 255, between the thumbnails of a frame and its copy; rounding alone
makes up to 0.4."""
MIN_NEIGHBOR_RATIO = 3.0
"""Minimum distance of the original from its neighbours, in distances of the copy from it."""
MIN_COPIES = 2
"""Minimum number of copies in a sequence that count as evidence."""

_COARSE = 4
"""Rows and columns of the means by which candidates are found."""


def read_thumbnails(encoded: Iterable[str]) -> Thumbnails:
    """Decode the thumbnails of a sequence's frames, in order, from hexadecimal digits."""
    rows = [np.frombuffer(bytes.fromhex(text), np.uint8) for text in encoded]
    if not rows:
        return np.empty((0, THUMBNAIL_SIDE**2), np.uint8)
    return np.stack(rows)


class TrainingFrames:
    """The frames of training sequences in which something moves, by their thumbnails.

    Args:
        sequences: thumbnails by the name of the sequence.
    """

    def __init__(self, sequences: Mapping[str, Thumbnails]) -> None:
        self._names: list[str] = []
        thumbnails = [np.empty((0, THUMBNAIL_SIDE**2), np.uint8)]
        distances = [np.empty(0, np.float32)]
        for name, frames in sequences.items():
            neighbor_distances = _neighbor_distances(frames)
            is_moving = neighbor_distances >= MAX_COPY_DISTANCE
            thumbnails.append(frames[is_moving])
            distances.append(neighbor_distances[is_moving])
            self._names += [name] * int(is_moving.sum())
        self._thumbnails = np.concatenate(thumbnails)
        self._neighbor_distances = np.concatenate(distances)
        self._tree = cKDTree(_coarse(self._thumbnails)) if self._names else None

    def copied_sequences(self, tested: Thumbnails) -> list[str]:
        """Return the training sequence that each frame of a test sequence is a copy of.

        Args:
            tested: the thumbnails of the test sequence.

        Returns:
            the name for each frame; empty text for a frame that is not a copy, or of a sequence of
            which too few frames were found.
        """
        originals = [self._original(frame) for frame in tested]
        distinct = {index for index in originals if index is not None}
        counts = Counter(self._names[index] for index in distinct)
        names = []
        for index in originals:
            name = "" if index is None else self._names[index]
            is_evident = counts[name] >= MIN_COPIES
            names.append(name if is_evident else "")
        return names

    def _original(self, frame: NDArray[np.uint8]) -> int | None:
        """Return the place of the training frame that a frame is a copy of."""
        if self._tree is None:
            return None
        # The means of areas differ by no more than the pixels do.
        radius = MAX_COPY_DISTANCE * _COARSE
        candidates = self._tree.query_ball_point(_coarse(frame[None])[0], radius)
        if not candidates:
            return None
        distances = _distances(self._thumbnails[candidates], frame)
        nearest = int(distances.argmin())
        index = candidates[nearest]
        distance = distances[nearest]
        neighbor_distance = self._neighbor_distances[index]
        if distance > MAX_COPY_DISTANCE or neighbor_distance < MIN_NEIGHBOR_RATIO * distance:
            return None
        return int(index)


def _neighbor_distances(frames: Thumbnails) -> NDArray[np.float32]:
    """Return the distance of each frame from its more similar neighbour; 0 for a single frame."""
    if len(frames) < 2:
        return np.zeros(len(frames), np.float32)
    steps = _distances(frames[1:], frames[:-1])
    after = np.append(steps, np.inf)
    before = np.insert(steps, 0, np.inf)
    return np.asarray(np.minimum(after, before), np.float32)


def _distances(thumbnails: Thumbnails, others: Thumbnails) -> NDArray[np.float32]:
    """Return the root mean squares of the differences of thumbnails, each less its mean."""
    differences = _without_mean(thumbnails) - _without_mean(others)
    return np.asarray(np.sqrt(np.square(differences).mean(axis=-1)), np.float32)


def _without_mean(thumbnails: Thumbnails) -> NDArray[np.float32]:
    values = thumbnails.astype(np.float32)
    return np.asarray(values - values.mean(axis=-1, keepdims=True), np.float32)


def _coarse(thumbnails: Thumbnails) -> NDArray[np.float32]:
    """Return means of areas of thumbnails without their mean, (N, 16)."""
    side = THUMBNAIL_SIDE // _COARSE
    areas = _without_mean(thumbnails).reshape(-1, _COARSE, side, _COARSE, side)
    return np.asarray(areas.mean(axis=(2, 4)).reshape(-1, _COARSE**2), np.float32)
