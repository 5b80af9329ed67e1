"""Spikes packed into bits: an eighth of the memory of an array of 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

_MAX_COUNT = 255
"""Largest count that a byte holds."""

_STEPS_AT_ONCE = 5
"""Steps that are looked up together: the result of more does not fit into a processor's cache."""

_SAMPLED_ROWS = 90
"""Number of rows that represent all pixels well enough."""

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_BYTE_TABLE = _BITS.view(np.float64).T
"""The eight bits of every byte as eight bytes: (1, 256). OpenCV has no 64-bit integers, so the
eight bytes are passed through as a double; no arithmetic is done on it."""


@dataclass(frozen=True)
class PackedSpikes:
    """Spikes that are unpacked step by step.

    Attributes:
        rows: uint8 (T, h, ceil(w / 8)), lowest bit first.
        columns: w, number of pixels in a row.
    """

    rows: NDArray[np.uint8]
    columns: int

    @classmethod
    def pack(cls, spikes: NDArray[np.uint8]) -> PackedSpikes:
        """Pack spikes, uint8 (T, h, w) of 0 and 1.

        >>> PackedSpikes.pack(np.array([[[1, 1, 0, 0, 0, 0, 0, 0, 1]]], np.uint8)).rows.tolist()
        [[[3, 1]]]
        """
        rows = np.packbits(spikes, axis=2, bitorder="little")
        return cls(rows, spikes.shape[2])

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, h, w)."""
        return (*self.rows.shape[:2], self.columns)

    def __len__(self) -> int:
        """T."""
        return len(self.rows)

    def __getitem__(self, step: int) -> NDArray[np.uint8]:
        """One step: uint8 (h, w) of 0 and 1."""
        return np.unpackbits(self.rows[step], axis=1, count=self.columns, bitorder="little")

    def counts(self, edges: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Count the spikes of each pixel between given steps, without unpacking them.

        A table turns each byte into eight counts of 0 or 1, one in each byte of a 64-bit number;
        adding these numbers counts eight pixels at once (no count exceeds 255, so nothing carries
        over).

        Args:
            edges: int64 (K + 1,), rising by 1 to 255: first step of each part, and the end.

        Returns:
            uint8 (K, h, w).
        """
        counts = np.zeros((len(edges) - 1, *self.rows.shape[1:]), dtype=np.uint64)
        for part, (start, stop) in enumerate(pairwise(edges.tolist())):
            rows = self.rows[start:stop]
            for first in range(0, len(rows), _STEPS_AT_ONCE):
                counts[part] += _count_few(rows[first : first + _STEPS_AT_ONCE])
        return counts.view(np.uint8)[..., : self.columns]

    def count_image(self, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Return spikes of each pixel in some steps, by default all: (h, w), whole numbers."""
        last = len(self) if stop is None else stop
        edges = np.array([*range(start, last, _MAX_COUNT), last])
        # The sum in float32 is exact up to 16 million spikes.
        return self.counts(edges).sum(axis=0, dtype=np.float32)

    @property
    def row_stride(self) -> int:
        """Distance between two successive rows of :attr:`subsampled`."""
        return max(1, self.shape[1] // _SAMPLED_ROWS)

    @property
    def subsampled(self) -> PackedSpikes:
        """Some rows of a large sensor, which suffice to judge the order of the steps."""
        return PackedSpikes(np.ascontiguousarray(self.rows[:, :: self.row_stride]), self.columns)


def _count_few(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the counts of a few steps (T, H, B), eight in a number: (H, B)."""
    # OpenCV looks up bytes many times faster than NumPy.
    spread = cv2.LUT(bits.reshape(-1, bits.shape[2]), _BYTE_TABLE)
    return np.add.reduce(spread.view(np.uint64).reshape(bits.shape), axis=0)


def pack_steps(spikes: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return the bytes of each step in a file.

    Args:
        spikes: (T, H, W) of 0 and 1, top row first.

    Returns:
        uint8 (T, ceil(H W / 8)), bottom row and lowest bit first.
    """
    bits = spikes[:, ::-1].astype(np.uint8, copy=False)
    return np.packbits(bits.reshape(len(bits), -1), axis=1, bitorder="little")
