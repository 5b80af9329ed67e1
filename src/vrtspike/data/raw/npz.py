"""Spikes in ``.npz`` files: an array ``spk`` (T, H, W) of 0 and 1, top row first."""

from __future__ import annotations

import contextlib
import functools
import io
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.raw.packed import pack_frames
from vrtspike.io.files import file_mark, refuse_pipe
from vrtspike.system.errors import DataError

KEY = "spk"
"""The array of an ``.npz`` file."""

_BLOCK_STEPS = 64
"""Steps that are held unpacked."""

_MAX_HEADER_BYTES = 10_000
"""Longest header of an array that is read; that of numbers with three axes takes 128 bytes."""

_FILE_ERRORS = (OSError, KeyError)
"""The file is missing, or has no such array."""
_HEADER_ERRORS = (ValueError, SyntaxError, tokenize.TokenError)
_ARCHIVE_ERRORS = (EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)
"""RuntimeError: the archive is encrypted, or packed in a way that zipfile does not support."""
_READ_ERRORS = (*_FILE_ERRORS, *_HEADER_ERRORS, *_ARCHIVE_ERRORS)


class _Array(NamedTuple):
    """An open array in an archive.

    Attributes:
        stream: stream of its values, at the first one.
        shape: its shape.
        dtype: type of its values.
    """

    stream: IO[bytes]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def is_npz(path: Path) -> bool:
    """Return whether a file is named as an ``.npz`` file."""
    return path.suffix.lower() == ".npz"


def npz_shape(path: Path) -> tuple[int, ...]:
    """Return the shape (T, H, W) of the spikes in an ``.npz`` file.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    with _open_array(path) as array:
        return array.shape


def npz_frames(path: Path) -> NDArray[np.uint8]:
    """Return the spike frames of an ``.npz`` file packed as in ``.dat``: (T, bytes of a frame).

    To get to a step, all steps before it are unpacked; so the frames of the latest file are kept.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
    return _read_frames(path, file_mark(path))


@functools.lru_cache(maxsize=1)
def _read_frames(path: Path, mark: object) -> NDArray[np.uint8]:
    """Read all spike frames.

    Args:
        path: path of the file.
        mark: changes with its contents, see :func:`vrtspike.io.files.file_mark`.
    """
    with _open_array(path) as array:
        count, height, width = array.shape
        step_bytes = height * width * array.dtype.itemsize
        blocks = []
        for first in range(0, count, _BLOCK_STEPS):
            steps = min(count - first, _BLOCK_STEPS)
            values = np.frombuffer(array.stream.read(steps * step_bytes), array.dtype)
            spikes = values.reshape(steps, height, width)
            if not ((spikes == 0) | (spikes == 1)).all():
                raise DataError(f"{path}: {KEY} holds values other than 0 and 1")
            blocks.append(pack_frames(spikes))
        # At the end of the file zipfile compares its checksum.
        if array.stream.read(1):
            raise ValueError("more than the array that its header announces")
        return np.concatenate(blocks)


@contextlib.contextmanager
def _open_array(path: Path) -> Iterator[_Array]:
    """Open the spikes of an ``.npz`` file.

    Errors of the body that come from damage of the file become a DataError, too.

    Raises:
        DataError: if the file cannot be read or holds no spikes (T, H, W).
    """
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
            yield _Array(stream, shape, dtype)
    except _READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: no .npz file with an array {KEY} (T, H, W): {reason}") from error


def _array_header(stream: IO[bytes]) -> IO[bytes]:
    """Return the header of an array after its magic string: two bytes of its length, and its text.

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
