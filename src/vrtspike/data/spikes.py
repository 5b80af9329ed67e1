"""Spike files: one bit per pixel and step, without a header.

A ``.dat`` file holds one spike frame after another, height x width / 8 bytes each. Bit p of a
frame, least significant bit of each byte first, is the pixel in column ``p % width`` of row
``p // width`` **counted from the bottom row**. This is the format of the Vidar cameras and of the
Spk-GoPro data set; Vidar dumps "with head" have rows of 416 pixels, the last 16 of which are no
picture and are dropped. An ``.npz`` file holds the same as an array ``spk`` (T, H, W) of 0 and 1,
top row first. This module is the only reader and writer.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError
from vrtspike.files import atomic_write_bytes

SUFFIXES = (".dat", ".npz")
"""Kinds of spike files."""

HEADER_COLUMNS = {416: 16}
"""Columns at the end of a row that are no picture, by the columns of a row in the file."""

NPZ_KEY = "spk"


def picture_columns(width: int) -> int:
    """Columns of the picture in a file whose rows have ``width`` columns: 400 for 416, else all."""
    return width - HEADER_COLUMNS.get(width, 0)


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
        path: a ``.dat`` or ``.npz`` file.
        height: rows of the sensor.
        width: columns of a row in the file; of 416, the last 16 are dropped.
        start: first spike frame to read.
        count: number of spike frames; None reads to the end.

    Returns:
        uint8 (T, height, columns of the picture) of 0 and 1, top row first.

    Raises:
        DataError: if the file is missing or empty, its size is not a whole number of frames, or
            the frames asked for are not in it.
    """
    if Path(path).suffix == ".npz":
        return _read_npz(path, height, width, start, count)
    columns = picture_columns(width)
    if width % 8:
        packed = read_packed(path, height, width, start=start, count=count)
        bits = np.unpackbits(packed, axis=1, bitorder="little")
        return np.ascontiguousarray(bits.reshape(-1, height, width)[:, ::-1, :columns])
    # Rows fill whole bytes: flipping them while packed moves an eighth of the memory.
    rows = read_rows(path, height, width, start=start, count=count)
    return np.unpackbits(rows, axis=2, count=columns, bitorder="little")


def read_rows(
    path: str | os.PathLike[str],
    height: int,
    width: int,
    *,
    start: int = 0,
    count: int | None = None,
) -> NDArray[np.uint8]:
    """Like :func:`read_spikes`, packed: uint8 (T, height, ceil(columns / 8)), lowest bit first."""
    if Path(path).suffix == ".npz" or width % 8:
        return pack_rows(read_spikes(path, height, width, start=start, count=count))
    packed = read_packed(path, height, width, start=start, count=count)
    rows = packed.reshape(-1, height, width // 8)[:, ::-1, : picture_columns(width) // 8]
    return np.ascontiguousarray(rows)


def pack_rows(spikes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack spikes (T, h, w) along their rows: uint8 (T, h, ceil(w / 8)), lowest bit first."""
    return np.packbits(spikes, axis=2, bitorder="little")


def npz_shape(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Shape of the spikes in an ``.npz`` file; only headers are read.

    Raises:
        DataError: if the file cannot be read or holds no array ``spk``.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{NPZ_KEY}.npy") as stream:
            version = np.lib.format.read_magic(stream)
            if version == (1, 0):
                return np.lib.format.read_array_header_1_0(stream)[0]
            return np.lib.format.read_array_header_2_0(stream)[0]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except KeyError as error:
        raise DataError(f"{path}: holds no array {NPZ_KEY!r} (T, H, W)") from error
    except (ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a readable .npz file ({error})") from error


def _check_npz_shape(
    path: str | os.PathLike[str], shape: tuple[int, ...], height: int, width: int
) -> int:
    if len(shape) != 3 or shape[1:] != (height, width) or shape[0] == 0:
        raise DataError(
            f"{path}: {NPZ_KEY} has the shape {shape}, (T, {height}, {width}) expected; "
            "check the sensor size"
        )
    return shape[0]


def _read_npz(
    path: str | os.PathLike[str], height: int, width: int, start: int, count: int | None
) -> NDArray[np.uint8]:
    total = count_spike_frames(path, height, width)
    stop = total if count is None else start + count
    if not 0 <= start <= stop <= total:
        raise DataError(f"{path}: spike frames {start} to {stop} asked for, it holds {total}")
    try:
        with np.load(path) as archive:
            spikes = archive[NPZ_KEY][start:stop, :, : picture_columns(width)]
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: not a readable .npz file ({error})") from error
    if not ((spikes == 0) | (spikes == 1)).all():
        raise DataError(f"{path}: {NPZ_KEY} holds values other than 0 and 1")
    return np.ascontiguousarray(spikes, dtype=np.uint8)


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
