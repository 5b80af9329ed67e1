"""Spikes in ``.npz`` files: an array ``spk`` (T, H, W) of 0 and 1, top row first.

A file may hold a whole sequence, gigabytes once unpacked, so only the steps asked for are kept. (To
get to them, all before them are unpacked.)
"""

from __future__ import annotations

import contextlib
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError

KEY = "spk"

_DAMAGE = (
    *(ValueError, SyntaxError, tokenize.TokenError),  # of NumPy's header
    *(EOFError, zipfile.BadZipFile, zlib.error),
    RuntimeError,  # encrypted, or packed in a way that zipfile does not know
)


def npz_shape(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Shape of the spikes in an ``.npz`` file; only headers are read.

    Raises:
        DataError: if the file cannot be read or holds no array ``spk``.
    """
    with _spikes(path) as (_, shape, _, _):
        return shape


def npz_blocks(
    path: str | os.PathLike[str], start: int, count: int, size: int
) -> Iterator[NDArray[np.uint8]]:
    """Steps ``start`` to ``start + count`` of the spikes, which must be in the file.

    Args:
        path: the file.
        start: first step.
        count: number of steps.
        size: steps of a block, which are held at once; all of the file where the array is stored
            with its columns first.

    Yields:
        uint8 (n, H, W) of 0 and 1; n is ``size``, less at the end.

    Raises:
        DataError: if the file cannot be read or holds anything else.
    """
    with _spikes(path) as (stream, shape, by_columns, dtype):
        whole: NDArray[np.generic] | None = None
        step = int(np.prod(shape[1:])) * dtype.itemsize
        if by_columns:  # its steps do not follow each other
            with np.load(path) as archive:
                whole = archive[KEY]
        else:
            stream.seek(start * step, os.SEEK_CUR)
        for first in range(start, start + count, size):
            last = min(first + size, start + count)
            if whole is not None:
                spikes = whole[first:last]
            else:
                contents = stream.read((last - first) * step)
                # At the end of the file zipfile compares its checksum.
                if last == shape[0] and stream.read(1):
                    raise ValueError("more than the array that its header announces")
                spikes = np.frombuffer(contents, dtype).reshape(last - first, *shape[1:])
            if not ((spikes == 0) | (spikes == 1)).all():
                raise DataError(f"{path}: {KEY} holds values other than 0 and 1")
            yield np.ascontiguousarray(spikes, dtype=np.uint8)


@contextlib.contextmanager
def _spikes(
    path: str | os.PathLike[str],
) -> Iterator[tuple[IO[bytes], tuple[int, ...], bool, np.dtype[np.generic]]]:
    """The array's bytes, its shape, whether columns come first, and its type."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{KEY}.npy") as stream:
            if np.lib.format.read_magic(stream) == (1, 0):
                shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
            else:
                shape, by_columns, dtype = np.lib.format.read_array_header_2_0(stream)
            if dtype.kind not in "biuf":
                raise ValueError(f"{KEY} holds {dtype}, not numbers")
            yield stream, shape, by_columns, dtype
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except KeyError as error:
        raise DataError(f"{path}: holds no array {KEY!r} (T, H, W)") from error
    except _DAMAGE as error:
        raise DataError(f"{path}: not a readable .npz file ({error})") from error
