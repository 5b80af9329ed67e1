"""Spike files: one bit per pixel and step, without a header.

A ``.dat`` file holds one spike frame after another, height x width / 8 bytes each. Bit p of a
frame, least significant bit of each byte first, is the pixel in column ``p % width`` of row
``p // width`` **counted from the bottom row**. This is the format of the Vidar cameras and of the
Spk-GoPro data set. This module is the only reader and writer.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError
from vrtspike.files import atomic_write_bytes


def frame_bytes(height: int, width: int) -> int:
    """Bytes of one spike frame.

    Raises:
        DataError: if the size is not positive or a frame does not fill whole bytes.
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
    total = count_spike_frames(path, height, width)
    stop = total if count is None else start + count
    if not 0 <= start <= stop <= total:
        raise DataError(
            f"{path}: spike frames {start} to {stop} asked for, the file holds {total} "
            f"of {height} x {width}"
        )
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
) -> NDArray[np.uint8]:
    """Read spike frames.

    Args:
        path: a ``.dat`` file.
        height: rows of the sensor.
        width: columns of the sensor.
        start: first spike frame to read.
        count: number of spike frames; None reads to the end.

    Returns:
        uint8 (T, height, width) of 0 and 1, top row first.

    Raises:
        DataError: if the file is missing or empty, its size is not a whole number of frames, or
            the frames asked for are not in it.
    """
    packed = read_packed(path, height, width, start=start, count=count)
    frames = len(packed)
    if width % 8:
        bits = np.unpackbits(packed, axis=1, bitorder="little")
        return np.ascontiguousarray(bits.reshape(frames, height, width)[:, ::-1])
    # Rows fill whole bytes: flipping them while packed moves an eighth of the memory.
    rows = np.ascontiguousarray(packed.reshape(frames, height, width // 8)[:, ::-1])
    return np.unpackbits(rows, axis=2, bitorder="little")


def pack_spikes(spikes: NDArray[np.generic]) -> bytes:
    """The bytes of a spike file for spikes (T, H, W) of 0 and 1, top row first.

    Raises:
        DataError: if the array has another shape, holds other values, or frames do not fill bytes.
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
