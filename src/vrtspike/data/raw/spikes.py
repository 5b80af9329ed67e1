"""Spike files: one bit per pixel and step, without a header.

A ``.dat`` file holds one step after another, height x width / 8 bytes each. Bit p of a
step, least significant bit of each byte first, is the pixel in column ``p % width`` of row
``p // width`` **counted from the bottom row**. Vidar cameras and the Spk-GoPro data set use this
format; Vidar dumps "with head" have rows of 416 pixels, the last 16 of which are not image. An
``.npz`` file holds the same as an array ``spk`` (T, H, W) of 0 and 1, top row first. All other
modules read and write both by this one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.raw.layouts.files import SensorArea
from vrtspike.data.raw.packed import PackedSpikes, pack_steps
from vrtspike.io.files import atomic_write_bytes, file_stamp, placeholder_fault, refuse_pipe
from vrtspike.system.errors import DataError

MAX_RATIO_NUMERATOR = 32
"""Largest numerator of the frame's size over the sensor's: crops are multiples of it."""

KEY = "spk"
"""The array of an ``.npz`` file."""

_BLOCK_STEPS = 64
"""Steps that are held unpacked."""

_MAX_HEADER_BYTES = 2**16
"""Longest header of an array, as long as one can be: numpy's own limit is for headers that hold
pickled objects."""

_NPZ_ERRORS = (
    OSError,  # the file is missing
    KeyError,  # it has no such array
    ValueError,  # this, and the next two: a damaged header
    SyntaxError,
    tokenize.TokenError,
    EOFError,  # this, and the next three: a damaged archive
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,  # it is encrypted, or packed in a way that zipfile does not support
)


def size_ratio(frame: tuple[int, int], sensor: tuple[int, int]) -> Fraction:
    """Return pixels of a frame for each spike pixel along each side.

    Crops fall on whole pixels of both where their sides are multiples of its numerator.

    Args:
        frame: rows and columns of a frame.
        sensor: rows and columns of the sensor's picture.

    Raises:
        DataError: if it is below 1, not the same along both sides, or needs too large crops.

    >>> size_ratio((1000, 1600), (400, 640))
    Fraction(5, 2)
    """
    down = Fraction(frame[0], sensor[0])
    across = Fraction(frame[1], sensor[1])
    if down != across or down < 1 or down.numerator > MAX_RATIO_NUMERATOR:
        raise DataError(
            f"sensor size {sensor[0]} x {sensor[1]} does not fit frames of {frame[0]} x "
            f"{frame[1]}: their sides must be the sensor's times the same number, at least 1 and a "
            f"whole one or a fraction p/q with p up to {MAX_RATIO_NUMERATOR}; check the sensor's "
            "size (DATA.SPIKE_SIZE, config.yaml beside spikes) and the layout (DATA.LAYOUT)"
        )
    return down


def step_bytes(height: int, width: int) -> int:
    """Return bytes of one step.

    Raises:
        DataError: if the size is not positive or a step does not fill whole bytes.

    >>> step_bytes(250, 400)
    12500
    """
    if min(height, width) <= 0 or height * width % 8:
        raise DataError(
            f"spike sensor size {height} x {width}: expected two positive numbers whose product is "
            "a multiple of 8, as steps fill whole bytes; check the sensor size"
        )
    return height * width // 8


def count_steps(path: Path, height: int, width: int) -> int:
    """Count the steps T of a file; only its size is read.

    Raises:
        DataError: if the file is missing, empty, or its size is not a whole number of steps.
    """
    if is_npz(path):
        shape = npz_shape(path)
        if shape[1:] != (height, width):
            raise DataError(
                f"{path}: {KEY} has the shape {shape}, (T, {height}, {width}) expected; "
                "check the sensor size"
            )
        return shape[0]
    per_step = step_bytes(height, width)
    try:
        refuse_pipe(path)
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if size == 0:
        raise DataError(f"{path}: the spike file is empty")
    if size % per_step:
        fault = placeholder_fault(path)
        if fault:
            raise DataError(f"{path}: {fault}")
        raise DataError(
            f"{path}: {size} bytes are not a whole number of {height} x {width} steps "
            f"({per_step} bytes each; {size // per_step} steps and {size % per_step} bytes "
            f"over); the file is cut or the sensor size is wrong"
        )
    return size // per_step


def read_spikes(
    path: str | os.PathLike[str],
    height: int,
    width: int,
    *,
    start: int = 0,
    count: int | None = None,
) -> NDArray[np.uint8]:
    """Read steps.

    Args:
        path: a ``.dat`` or ``.npz`` file.
        height: rows of the sensor.
        width: columns of a row in the file.
        start: first step to read.
        count: number of steps; None reads to the end.

    Returns:
        uint8 (T, height, width) of 0 and 1, top row first.

    Raises:
        DataError: if the file is missing or empty, its size is not a whole number of steps, or
            the steps asked for are not in it.
    """
    sensor = Sensor((height, width), SensorArea(0, 0, height, width))
    spikes = sensor.read(Path(path), start, count)
    return np.unpackbits(spikes.rows, axis=2, count=spikes.columns, bitorder="little")


class Sensor(NamedTuple):
    """A spike sensor, as its files store it.

    Attributes:
        size: rows and columns in a file.
        area: the part of them that is picture.
    """

    size: tuple[int, int]
    area: SensorArea

    def read(self, path: Path, start: int = 0, count: int | None = None) -> PackedSpikes:
        """Read the picture of steps, packed; errors as of :func:`read_spikes`.

        Args:
            path: a ``.dat`` or ``.npz`` file.
            start: first step to read.
            count: number of steps; None reads to the end.
        """
        height, width = self.size
        total = count_steps(path, height, width)
        stop = total if count is None else start + count
        if not 0 <= start <= stop <= total:
            raise DataError(
                f"{path}: steps {start} to {stop - 1} asked for, the file holds {total} "
                f"of {height} x {width}"
            )
        if is_npz(path):
            steps = npz_steps(path)[start:stop]
        else:
            steps = _read_dat(path, step_bytes(height, width), start, stop)
        return self._crop(steps)

    def _crop(self, steps: NDArray[np.uint8]) -> PackedSpikes:
        """Crop steps (T, bytes of a step) to the picture, top row first."""
        height, width = self.size
        area = self.area
        rows = slice(area.top, area.top + area.rows)
        if width % 8 or area.left % 8 or area.columns % 8:
            bits = np.unpackbits(steps, axis=1, count=height * width, bitorder="little")
            flipped = bits.reshape(-1, height, width)[:, ::-1]
            columns = slice(area.left, area.left + area.columns)
            return PackedSpikes.pack(flipped[:, rows, columns])
        # Rows fill whole bytes: flipping them while packed moves an eighth of the memory.
        flipped = steps.reshape(-1, height, width // 8)[:, ::-1]
        packed_columns = slice(area.left // 8, (area.left + area.columns) // 8)
        return PackedSpikes(np.ascontiguousarray(flipped[:, rows, packed_columns]), area.columns)


def _read_dat(path: Path, nbytes: int, start: int, stop: int) -> NDArray[np.uint8]:
    """Read steps of a ``.dat`` file: (T, ``nbytes``), ``nbytes`` being those of a step.

    Raises:
        DataError: if the file cannot be read, or has been cut since its steps were counted.
    """
    size = (stop - start) * nbytes
    try:
        raw = np.fromfile(path, np.uint8, count=size, offset=start * nbytes)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if raw.size != size:
        raise DataError(
            f"{path}: found {raw.size} bytes from step {start} on, expected {size}; the file "
            "became shorter while it was read; wait until it is written, or copy it again"
        )
    return raw.reshape(stop - start, nbytes)


def pack_spikes(spikes: NDArray[np.generic]) -> bytes:
    """Return the bytes of a spike file for spikes (T, H, W) of 0 and 1, top row first.

    Raises:
        DataError: if the array has another shape, holds other values, or steps do not fill bytes.

    >>> spikes = np.zeros((1, 2, 4), np.uint8)
    >>> spikes[0, 1, 0] = 1  # bottom row, first column: the lowest bit
    >>> spikes[0, 0, 3] = 1  # top row, last column: the highest
    >>> f"{pack_spikes(spikes)[0]:08b}"
    '10000001'
    """
    if spikes.ndim != 3 or spikes.shape[0] == 0:
        raise DataError(f"spikes of shape {spikes.shape}: (T, H, W) with T >= 1 expected")
    step_bytes(spikes.shape[1], spikes.shape[2])
    if spikes.dtype != np.bool_ and not ((spikes == 0) | (spikes == 1)).all():
        raise DataError("spikes hold values other than 0 and 1")
    return pack_steps(spikes).tobytes()


def write_spikes(path: str | os.PathLike[str], spikes: NDArray[np.generic]) -> None:
    """Write spikes (T, H, W) of 0 and 1, top row first, atomically; inverse of read_spikes.

    Raises:
        DataError: if the array is not a spike array.
    """
    atomic_write_bytes(path, pack_spikes(spikes))


def is_npz(path: Path) -> bool:
    """Return whether a file is named as an ``.npz`` file."""
    return path.suffix.lower() == ".npz"


def npz_shape(path: Path) -> tuple[int, ...]:
    """Return the shape (T, H, W) of the spikes in an ``.npz`` file.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    with _open_array(path) as (_, shape, _):
        return shape


def npz_sensor(path: Path) -> tuple[int, int] | None:
    """Return rows and columns of the sensor as an ``.npz`` file gives them; None for other files.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    if not is_npz(path):
        return None
    _, rows, columns = npz_shape(path)
    return rows, columns


def npz_steps(path: Path) -> NDArray[np.uint8]:
    """Return the steps of an ``.npz`` file packed as in ``.dat``: (T, bytes of a step).

    To get to a step, all steps before it are unpacked; so those of the latest file are kept.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    return _read_steps(path, file_stamp(path))


@functools.lru_cache(maxsize=1)
def _read_steps(path: Path, stamp: object) -> NDArray[np.uint8]:
    """Read all steps.

    Args:
        path: path of the file.
        stamp: changes with its contents, see :func:`vrtspike.io.files.file_stamp`.
    """
    with _open_array(path) as (stream, shape, dtype):
        count, height, width = shape
        unpacked_bytes = height * width * dtype.itemsize
        blocks = []
        for first in range(0, count, _BLOCK_STEPS):
            steps = min(count - first, _BLOCK_STEPS)
            values = np.frombuffer(stream.read(steps * unpacked_bytes), dtype)
            spikes = values.reshape(steps, height, width)
            if not ((spikes == 0) | (spikes == 1)).all():
                raise DataError(f"{path}: {KEY} holds values other than 0 and 1")
            blocks.append(pack_steps(spikes))
        # At the end of the file zipfile compares its checksum.
        if stream.read(1):
            raise ValueError("more than the array that its header announces")
        return np.concatenate(blocks)


@contextlib.contextmanager
def _open_array(path: Path) -> Iterator[tuple[IO[bytes], tuple[int, ...], np.dtype[Any]]]:
    """Open the spikes of an ``.npz`` file: stream of the values, shape and data type.

    Errors of the body that come from damage of the file become a DataError, too.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    try:
        refuse_pipe(path)
        with zipfile.ZipFile(path) as archive, archive.open(f"{KEY}.npy") as stream:
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError(f"{KEY} holds no numbers")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(
                stream, max_header_size=_MAX_HEADER_BYTES
            )
            if dtype.kind not in "biuf":
                raise ValueError(f"{KEY} holds {dtype}, not numbers")
            if len(shape) != 3 or 0 in shape:
                raise ValueError(f"{KEY} has the shape {shape}, (T, H, W) expected")
            if by_columns:
                raise ValueError(f"{KEY} has its columns first; save numpy.ascontiguousarray of it")
            yield stream, shape, dtype
    except _NPZ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: no .npz file with an array {KEY} (T, H, W): {reason}") from error
