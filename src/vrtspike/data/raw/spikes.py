"""Spike files: one bit per pixel and step, without a header.

A ``.dat`` file holds one spike frame after another, height x width / 8 bytes each. Bit p of a
frame, least significant bit of each byte first, is the pixel in column ``p % width`` of row
``p // width`` **counted from the bottom row**. This is the format of the Vidar cameras and of the
Spk-GoPro data set; Vidar dumps "with head" have rows of 416 pixels, the last 16 of which are no
picture. An ``.npz`` file holds the same as an array ``spk`` (T, H, W) of 0 and 1,
top row first. This module is the only reader and writer of both.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.raw.layouts.files import Area
from vrtspike.io.files import atomic_write_bytes, file_mark, placeholder_fault, refuse_pipe
from vrtspike.system.errors import DataError

MOST_SCALE = 32
"""Largest numerator of the frame's size over the sensor's: crops are multiples of it."""

KEY = "spk"
"""The array of an ``.npz`` file."""

_BLOCK_STEPS = 64
"""Steps that are held unpacked."""

_MOST_COUNTED = 255
"""Spikes that a byte can count."""

_AT_A_TIME = 5
"""Steps that are looked up together: what comes of more does not fit into a processor's cache."""

_SAMPLED_ROWS = 90
"""Rows that say as much about all pixels as more would."""

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_BITS_AT_ONCE = _BITS.view(np.float64).T
"""The bits of every byte, each in a byte of its own: (1, 256). OpenCV knows no 64-bit integers:
eight bytes travel as a floating-point number, with which nothing is computed."""

_MAX_HEADER_BYTES = 10_000
"""Longest header of an array that is read; that of numbers with three axes takes 128 bytes."""

_DAMAGE = (
    *(OSError, KeyError),  # there is no such file, no such array
    *(ValueError, SyntaxError, tokenize.TokenError),  # of an array's header
    *(EOFError, zipfile.BadZipFile, zlib.error),  # of an archive
    RuntimeError,  # it is encrypted, or packed in a way that zipfile does not know
)


def frame_scale(frame: tuple[int, int], sensor: tuple[int, int]) -> Fraction:
    """Pixels of a frame for each spike pixel along each side.

    Crops fall on whole pixels of both where their sides are multiples of its numerator.

    Args:
        frame: rows and columns of a frame.
        sensor: those of the sensor's picture.

    Raises:
        DataError: if it is below 1, not the same along both sides, or needs too large crops.

    >>> frame_scale((1000, 1600), (400, 640))
    Fraction(5, 2)
    """
    down, across = (Fraction(big, small) for big, small in zip(frame, sensor, strict=True))
    if down != across or down < 1 or down.numerator > MOST_SCALE:
        raise DataError(
            f"sensor size {sensor[0]} x {sensor[1]} does not fit frames of {frame[0]} x "
            f"{frame[1]}: their sides must be the sensor's times the same number, at least 1 and a "
            f"whole one or a fraction p/q with p up to {MOST_SCALE}; check the size (--sensor, "
            "DATA.SPIKE_SIZE, config.yaml beside spikes) and the layout (--layout, DATA.LAYOUT)"
        )
    return down


def frame_bytes(height: int, width: int) -> int:
    """Bytes of one spike frame.

    Raises:
        DataError: if the size is not positive or a frame does not fill whole bytes.

    >>> frame_bytes(250, 400)
    12500
    """
    if min(height, width) <= 0 or height * width % 8:
        raise DataError(
            f"spike sensor size {height} x {width}: expected two positive numbers whose product is "
            "a multiple of 8, as frames fill whole bytes; check the sensor size"
        )
    return height * width // 8


def count_spike_frames(path: Path, height: int, width: int) -> int:
    """Number of spike frames T in a file; only its size is read.

    Raises:
        DataError: if the file is missing, empty, or its size is not a whole number of frames.
    """
    if _is_npz(path):
        with _npz(path) as (_, shape, _):
            pass
        if shape[1:] != (height, width):
            raise DataError(
                f"{path}: {KEY} has the shape {shape}, (T, {height}, {width}) expected; "
                "check the sensor size"
            )
        return shape[0]
    per_frame = frame_bytes(height, width)
    try:
        refuse_pipe(path)
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if size == 0:
        raise DataError(f"{path}: the spike file is empty")
    if size % per_frame:
        if found := placeholder_fault(path):
            raise DataError(f"{path}: {found}")
        raise DataError(
            f"{path}: {size} bytes are not a whole number of {height} x {width} spike frames "
            f"({per_frame} bytes each; {size // per_frame} frames and {size % per_frame} bytes "
            f"over); the file is cut or the sensor size is wrong"
        )
    return size // per_frame


def _is_npz(path: Path) -> bool:
    return path.suffix.lower() == ".npz"


def npz_sensor(path: Path) -> tuple[int, int] | None:
    """Rows and columns of the sensor as an ``.npz`` file gives them; None for other files.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    if not _is_npz(path):
        return None
    with _npz(path) as (_, shape, _):
        return shape[1], shape[2]


@contextlib.contextmanager
def _npz(path: Path) -> Iterator[tuple[IO[bytes], tuple[int, ...], np.dtype[Any]]]:
    """The bytes of the spikes in an ``.npz`` file, their shape and type."""
    try:
        refuse_pipe(path)
        with zipfile.ZipFile(path) as archive, archive.open(f"{KEY}.npy") as stream:
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError(f"{KEY} holds no numbers")
            header = _array_header(stream)
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(header)
            if dtype.kind not in "biuf":
                raise ValueError(f"{KEY} holds {dtype}, not numbers")
            if len(shape) != 3 or 0 in shape:
                raise ValueError(f"{KEY} has the shape {shape}, (T, H, W) expected")
            if by_columns:
                raise ValueError(f"{KEY} has its columns first; save numpy.ascontiguousarray of it")
            yield stream, shape, dtype
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: no .npz file with an array {KEY} (T, H, W): {reason}") from error


def _array_header(stream: IO[bytes]) -> IO[bytes]:
    """The header of an array after its magic string: two bytes of its length, and its text.

    Raises:
        ValueError: if it is too long for an array of numbers.
    """
    length = stream.read(2)
    nbytes = int.from_bytes(length, "little")
    if nbytes > _MAX_HEADER_BYTES:
        raise ValueError(
            f"the header of {KEY} takes {nbytes} bytes, expected at most {_MAX_HEADER_BYTES}: it "
            "is damaged, or no plain array of numbers; write the file again with numpy.savez"
        )
    return io.BytesIO(length + stream.read(nbytes))


@functools.lru_cache(maxsize=1)
def _npz_frames(path: Path, mark: object) -> NDArray[np.uint8]:
    """The spike frames of an ``.npz`` file as a ``.dat`` file has them: (T, bytes of a frame).

    To get to a step, all before it are unpacked; so those of the latest file are kept.

    Args:
        path: of the file.
        mark: what changes with its contents, see :func:`vrtspike.io.files.file_mark`.
    """
    with _npz(path) as (stream, shape, dtype):
        step = int(np.prod(shape[1:])) * dtype.itemsize
        parts = []
        for left in range(shape[0], 0, -_BLOCK_STEPS):
            steps = min(left, _BLOCK_STEPS)
            spikes = np.frombuffer(stream.read(steps * step), dtype).reshape(steps, *shape[1:])
            if not ((spikes == 0) | (spikes == 1)).all():
                raise DataError(f"{path}: {KEY} holds values other than 0 and 1")
            parts.append(_pack_frames(spikes))
        # At the end of the file zipfile compares its checksum.
        if stream.read(1):
            raise ValueError("more than the array that its header announces")
        return np.concatenate(parts)


def read_spikes(
    path: str | os.PathLike[str],
    height: int,
    width: int,
    *,
    start: int = 0,
    count: int | None = None,
) -> NDArray[np.uint8]:
    """Read spike frames.

    Args:
        path: a ``.dat`` or ``.npz`` file.
        height: rows of the sensor.
        width: columns of a row in the file.
        start: first spike frame to read.
        count: number of spike frames; None reads to the end.

    Returns:
        uint8 (T, height, width) of 0 and 1, top row first.

    Raises:
        DataError: if the file is missing or empty, its size is not a whole number of frames, or
            the frames asked for are not in it.
    """
    found = Sensor((height, width), Area(0, 0, height, width)).read(Path(path), start, count)
    return np.unpackbits(found.rows, axis=2, count=found.columns, bitorder="little")


class Sensor(NamedTuple):
    """A spike sensor, as it lies in its files."""

    size: tuple[int, int]
    """Rows and columns in a file."""
    area: Area
    """The part of them that is picture."""

    def read(self, path: Path, start: int = 0, count: int | None = None) -> PackedSpikes:
        """Like :func:`read_spikes`, the picture only and packed.

        Args:
            path: as there.
            start: as there.
            count: as there.
        """
        (height, width), area = self
        total = count_spike_frames(path, height, width)
        stop = total if count is None else start + count
        if not 0 <= start <= stop <= total:
            raise DataError(
                f"{path}: spike frames {start} to {stop} asked for, the file holds {total} "
                f"of {height} x {width}"
            )
        rows = slice(area.top, area.top + area.rows)
        columns = slice(area.left, area.left + area.columns)
        if _is_npz(path):
            packed = _npz_frames(path, file_mark(path))[start:stop]
        else:
            size = frame_bytes(height, width)
            try:
                raw = np.fromfile(path, np.uint8, count=(stop - start) * size, offset=start * size)
            except OSError as error:
                raise DataError(f"{path}: cannot be read ({error.strerror})") from error
            packed = raw.reshape(stop - start, size)
        if width % 8 or area.left % 8 or area.columns % 8:
            bits = np.unpackbits(packed, axis=1, count=height * width, bitorder="little")
            bits = bits.reshape(-1, height, width)
            return PackedSpikes(pack_rows(bits[:, ::-1][:, rows, columns]), area.columns)
        # Rows fill whole bytes: flipping them while packed moves an eighth of the memory.
        packed_columns = slice(columns.start // 8, columns.stop // 8)
        flipped = packed.reshape(-1, height, width // 8)[:, ::-1]
        return PackedSpikes(np.ascontiguousarray(flipped[:, rows, packed_columns]), area.columns)


@dataclass(frozen=True)
class PackedSpikes:
    """Spikes that are unpacked step by step: an eighth of the memory of what they stand for."""

    rows: NDArray[np.uint8]
    """uint8 (T, h, ceil(w / 8)), lowest bit first."""
    columns: int
    """w."""

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

    def counts(self, steps: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Count the spikes of each pixel between given steps, without unpacking them.

        A table turns each byte into eight counts of 0 or 1, one in each byte of a 64-bit number;
        adding these numbers counts eight pixels at once (no count exceeds 255, so nothing carries
        over).

        Args:
            steps: int64 (K + 1,), rising by 1 to 255: first step of each part, and the end.

        Returns:
            uint8 (K, h, w).
        """
        counts = np.empty((len(steps) - 1, *self.rows.shape[1:]), dtype=np.uint64)
        for k, (start, stop) in enumerate(pairwise(steps.tolist())):
            part = self.rows[start:stop]
            few = (part[i : i + _AT_A_TIME] for i in range(0, len(part), _AT_A_TIME))
            counts[k] = functools.reduce(np.add, map(_count_few, few))
        return counts.view(np.uint8)[..., : self.columns]

    def picture(self, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Spikes of each pixel in some steps, by default all: (h, w), whole numbers."""
        last = len(self) if stop is None else stop
        edges = np.array([*range(start, last, _MOST_COUNTED), last])
        # Exact up to 16 million spikes.
        return self.counts(edges).sum(axis=0, dtype=np.float32)

    @property
    def row_step(self) -> int:
        """From one of the :attr:`sampled` rows to the next."""
        return max(1, self.shape[1] // _SAMPLED_ROWS)

    @property
    def sampled(self) -> PackedSpikes:
        """Of large sensors some of the rows, which suffice to tell how the steps follow."""
        return PackedSpikes(np.ascontiguousarray(self.rows[:, :: self.row_step]), self.columns)


def _count_few(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The counts of a few steps (T, H, B), eight in a number: (H, B)."""
    # OpenCV looks up bytes many times faster than NumPy.
    found = cv2.LUT(bits.reshape(-1, bits.shape[2]), _BITS_AT_ONCE)
    return np.add.reduce(found.view(np.uint64).reshape(bits.shape), axis=0)


def pack_rows(spikes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack spikes (T, h, w) along their rows: uint8 (T, h, ceil(w / 8)), lowest bit first.

    >>> pack_rows(np.array([[[1, 1, 0, 0, 0, 0, 0, 0, 1]]], np.uint8)).tolist()
    [[[3, 1]]]
    """
    return np.packbits(spikes, axis=2, bitorder="little")


def pack_spikes(spikes: NDArray[np.generic]) -> bytes:
    """The bytes of a spike file for spikes (T, H, W) of 0 and 1, top row first.

    Raises:
        DataError: if the array has another shape, holds other values, or frames do not fill bytes.

    >>> spikes = np.zeros((1, 2, 4), np.uint8)
    >>> spikes[0, 1, 0] = 1  # bottom row, first column: the lowest bit
    >>> spikes[0, 0, 3] = 1  # top row, last column: the highest
    >>> f"{pack_spikes(spikes)[0]:08b}"
    '10000001'
    """
    if spikes.ndim != 3 or spikes.shape[0] == 0:
        raise DataError(f"spikes of shape {spikes.shape}: (T, H, W) with T >= 1 expected")
    frame_bytes(spikes.shape[1], spikes.shape[2])
    if spikes.dtype != np.bool_ and not ((spikes == 0) | (spikes == 1)).all():
        raise DataError("spikes hold values other than 0 and 1")
    return _pack_frames(spikes).tobytes()


def _pack_frames(spikes: NDArray[np.generic]) -> NDArray[np.uint8]:
    """The bytes of each spike frame (T, H, W) of 0 and 1: uint8 (T, ceil(H W / 8))."""
    bits = spikes[:, ::-1].astype(np.uint8, copy=False)
    return np.packbits(bits.reshape(len(bits), -1), axis=1, bitorder="little")


def write_spikes(path: str | os.PathLike[str], spikes: NDArray[np.generic]) -> None:
    """Write spikes (T, H, W) of 0 and 1, top row first, atomically; inverse of read_spikes.

    Raises:
        DataError: if the array is not a spike array.
    """
    atomic_write_bytes(path, pack_spikes(spikes))
