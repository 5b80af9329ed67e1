"""Spike files: one bit per pixel and step, without a header.

A ``.dat`` file holds one spike frame after another, height x width / 8 bytes each. Bit p of a
frame, least significant bit of each byte first, is the pixel in column ``p % width`` of row
``p // width`` **counted from the bottom row**. This is the format of the Vidar cameras and of the
Spk-GoPro data set; Vidar dumps "with head" have rows of 416 pixels, the last 16 of which are no
picture. An ``.npz`` file holds the same as an array ``spk`` (T, H, W) of 0 and 1,
top row first (:mod:`vrtspike.deblurring.data.raw.npz` reads it). This module is the only reader and
writer of the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.raw.npz import KEY, npz_blocks, npz_shape
from vrtspike.errors import DataError
from vrtspike.files import atomic_write_bytes

_BLOCK_PIXELS = 2 * 2**20
"""Pixels of the steps that are read at once: 2 MB unpacked."""

HEADER_COLUMNS = {416: 16}
"""Columns at the end of a row that are no picture, by the columns of a row in the file."""


def picture_columns(sensor: tuple[int, int], frame: tuple[int, int]) -> int:
    """Columns of the picture in a spike file: 400 of 416 in Vidar dumps "with head", else all.

    Args:
        sensor: rows and columns as they are in the file.
        frame: rows and columns of the frames. Where they are as wide as all columns of the file
            say (832 for 416 at half the size), there is no header.

    >>> picture_columns((250, 416), (500, 800)), picture_columns((250, 416), (500, 832))
    (400, 416)
    """
    rows, columns = sensor
    if frame[1] * rows == frame[0] * columns:
        return columns
    return columns - HEADER_COLUMNS.get(columns, 0)


def frame_bytes(height: int, width: int) -> int:
    """Bytes of one spike frame.

    Raises:
        DataError: if the size is not positive or a frame does not fill whole bytes.

    >>> frame_bytes(250, 400)
    12500
    """
    if height <= 0 or width <= 0:
        raise DataError(f"spike sensor size {height} x {width}: both numbers must be positive")
    if height * width % 8:
        raise DataError(
            f"spike sensor size {height} x {width}: {height * width} pixels do not fill whole "
            "bytes (a multiple of 8 is needed); check the sensor size"
        )
    return height * width // 8


def count_spike_frames(path: str | os.PathLike[str], height: int, width: int) -> int:
    """Number of spike frames T in a file; only its size is read.

    Raises:
        DataError: if the file is missing, empty, or its size is not a whole number of frames.
    """
    if Path(path).suffix == ".npz":
        return _check_npz_shape(path, npz_shape(path), height, width)
    per_frame = frame_bytes(height, width)
    try:
        size = Path(path).stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if size == 0:
        raise DataError(f"{path}: the spike file is empty")
    if size % per_frame:
        raise DataError(
            f"{path}: {size} bytes are not a whole number of {height} x {width} spike frames "
            f"({per_frame} bytes each; {size // per_frame} frames and {size % per_frame} bytes "
            "over); the file is cut or the sensor size is wrong"
        )
    return size // per_frame


def npz_sensor(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Rows and columns of the sensor as an ``.npz`` file gives them; None for other files.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    if Path(path).suffix != ".npz":
        return None
    shape = npz_shape(path)
    if len(shape) != 3 or 0 in shape:
        raise DataError(f"{path}: spikes of shape {shape}, (T, H, W) expected")
    return shape[1], shape[2]


def read_packed(
    path: str | os.PathLike[str],
    height: int,
    width: int,
    *,
    start: int = 0,
    count: int | None = None,
) -> NDArray[np.uint8]:
    """Read the bits of spike frames as they lie on disk: uint8 (count, height * width / 8).

    Raises:
        DataError: see :func:`read_spikes`.
    """
    start, stop = _range(path, height, width, start, count)
    per_frame = frame_bytes(height, width)
    try:
        raw = np.fromfile(
            path, dtype=np.uint8, count=(stop - start) * per_frame, offset=start * per_frame
        )
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if raw.size != (stop - start) * per_frame:
        raise DataError(f"{path}: the file became shorter while it was read")
    return raw.reshape(stop - start, per_frame)


def read_spikes(
    path: str | os.PathLike[str],
    height: int,
    width: int,
    *,
    start: int = 0,
    count: int | None = None,
    columns: int | None = None,
) -> NDArray[np.uint8]:
    """Read spike frames.

    Args:
        path: a ``.dat`` or ``.npz`` file.
        height: rows of the sensor.
        width: columns of a row in the file.
        start: first spike frame to read.
        count: number of spike frames; None reads to the end.
        columns: how many of a row's columns are picture, see :func:`picture_columns`; None is all.

    Returns:
        uint8 (T, height, columns) of 0 and 1, top row first.

    Raises:
        DataError: if the file is missing or empty, its size is not a whole number of frames, or
            the frames asked for are not in it.
    """
    columns = width if columns is None else columns
    rows = read_rows(path, height, width, start=start, count=count, columns=columns)
    return np.unpackbits(rows, axis=2, count=columns, bitorder="little")


def read_rows(
    path: str | os.PathLike[str],
    height: int,
    width: int,
    *,
    start: int = 0,
    count: int | None = None,
    columns: int | None = None,
) -> NDArray[np.uint8]:
    """Like :func:`read_spikes`, packed: uint8 (T, height, ceil(columns / 8)), lowest bit first.

    It never holds more than a few steps unpacked.
    """
    columns = width if columns is None else columns
    start, stop = _range(path, height, width, start, count)
    rows = np.empty((stop - start, height, -(-columns // 8)), np.uint8)
    done = 0
    for block in _row_blocks(path, (height, width), start, stop, columns):
        rows[done : done + len(block)] = block
        done += len(block)
    return rows


def _row_blocks(
    path: str | os.PathLike[str], sensor: tuple[int, int], start: int, stop: int, columns: int
) -> Iterator[NDArray[np.uint8]]:
    """The packed rows of spike frames, some frames at a time."""
    height, width = sensor
    size = max(1, _BLOCK_PIXELS // (height * width))
    if Path(path).suffix == ".npz":
        for spikes in npz_blocks(path, start, stop - start, size):
            yield pack_rows(spikes[:, :, :columns])
        return
    for first in range(start, stop, size):
        count = min(size, stop - first)
        packed = read_packed(path, height, width, start=first, count=count)
        if width % 8 or columns % 8:
            bits = np.unpackbits(packed, axis=1, bitorder="little").reshape(count, height, width)
            yield pack_rows(bits[:, ::-1, :columns])
        else:  # Rows fill whole bytes: flipping them while packed moves an eighth of the memory.
            yield packed.reshape(count, height, width // 8)[:, ::-1, : columns // 8]


class Steps(Protocol):
    """Spikes (T, h, w) whose steps are looked at one by one: an array, or packed ones."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, h, w)."""

    def __len__(self) -> int:
        """T."""

    def __getitem__(self, step: int, /) -> NDArray[np.uint8]:
        """One step: uint8 (h, w) of 0 and 1."""


@dataclass(frozen=True)
class PackedSpikes:
    """Spikes that are unpacked step by step: an eighth of the memory of what they stand for."""

    rows: NDArray[np.uint8]
    """uint8 (T, h, ceil(w / 8)), lowest bit first, as :func:`read_rows` gives them."""
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

    def count(self) -> int:
        """Spikes of all pixels and steps."""
        return sum(int(np.count_nonzero(self[step])) for step in range(len(self)))


def _range(
    path: str | os.PathLike[str], height: int, width: int, start: int, count: int | None
) -> tuple[int, int]:
    """First spike frame of a part of a file, and the one after its last; they must be in it."""
    total = count_spike_frames(path, height, width)
    stop = total if count is None else start + count
    if not 0 <= start <= stop <= total:
        raise DataError(
            f"{path}: spike frames {start} to {stop} asked for, the file holds {total} "
            f"of {height} x {width}"
        )
    return start, stop


def pack_rows(spikes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack spikes (T, h, w) along their rows: uint8 (T, h, ceil(w / 8)), lowest bit first.

    >>> pack_rows(np.array([[[1, 1, 0, 0, 0, 0, 0, 0, 1]]], np.uint8)).tolist()
    [[[3, 1]]]
    """
    return np.packbits(spikes, axis=2, bitorder="little")


def _check_npz_shape(
    path: str | os.PathLike[str], shape: tuple[int, ...], height: int, width: int
) -> int:
    if len(shape) != 3 or shape[1:] != (height, width) or shape[0] == 0:
        raise DataError(
            f"{path}: {KEY} has the shape {shape}, (T, {height}, {width}) expected; "
            "check the sensor size"
        )
    return shape[0]


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
    bits = spikes[:, ::-1].astype(np.uint8, copy=False)
    return np.packbits(bits.reshape(len(bits), -1), axis=1, bitorder="little").tobytes()


def write_spikes(path: str | os.PathLike[str], spikes: NDArray[np.generic]) -> None:
    """Write spikes (T, H, W) of 0 and 1, top row first, atomically; inverse of read_spikes.

    Raises:
        DataError: if the array is not a spike array.
    """
    atomic_write_bytes(path, pack_spikes(spikes))
