"""Altered copies of frames, found by their thumbnails.

A copy that was encoded as JPEG or made a little brighter has another digest, but nearly the same
thumbnail. The frames next to it differ more, unless nothing moves: a still scene gives no evidence.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Thumbnails = NDArray[np.float32]
"""(N, pixels), each less its mean."""

MAX_COPY_DISTANCE = 0.8
"""Most root mean square, of 255, between the thumbnails of a frame and its copy; rounding alone
makes up to 0.4."""
MIN_NEIGHBOUR_RATIO = 3.0
"""Least distance of the original from its neighbours, in distances of the copy from it."""
MIN_COPIES = 2
"""Fewest such frames of a sequence that count as evidence."""


def read_thumbnails(encoded: Iterable[str]) -> Thumbnails:
    """Decode the thumbnails of a sequence's frames, in order, from hexadecimal digits."""
    rows = [np.frombuffer(bytes.fromhex(text), np.uint8).astype(np.float32) for text in encoded]
    if not rows:
        return np.empty((0, 0), np.float32)
    return np.stack([row - row.mean() for row in rows])


def count_copies(tested: Thumbnails, known: Thumbnails) -> int:
    """Count the frames of a sequence that are altered copies of frames of another one.

    Args:
        tested: of the sequence.
        known: of the other one, in order.
    """
    if len(tested) == 0 or len(known) < 2:
        return 0
    squares = _squares(tested)[:, None] + _squares(known)[None] - 2 * tested @ known.T
    distances = np.sqrt(np.maximum(squares, 0) / known.shape[1])
    nearest = distances.argmin(axis=1)
    distance = distances.min(axis=1)
    steps = np.sqrt(_squares(np.diff(known, axis=0)) / known.shape[1])
    # The smaller step of both sides; a frame at an end has one side.
    apart = np.minimum(np.append(steps, np.inf), np.insert(steps, 0, np.inf))[nearest]
    is_copy = (distance <= MAX_COPY_DISTANCE) & (apart >= MIN_NEIGHBOUR_RATIO * distance)
    is_moving = apart >= MAX_COPY_DISTANCE
    return len(set(nearest[is_copy & is_moving].tolist()))


def _squares(thumbnails: Thumbnails) -> NDArray[np.float32]:
    """Sum of the squares of each row."""
    return np.asarray(np.square(thumbnails).sum(axis=1), np.float32)
