"""Lazy arrays of months whose errors name the file and the month."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask.array
import numpy as np
from dask.array.core import normalize_chunks
from numpy.typing import NDArray

from vrtspike.sst.settings import MONTHS, month_name
from vrtspike.system.errors import DataError

ArraySlices = tuple[slice, ...]
_UNREADABLE = (OSError, ValueError, RuntimeError, LookupError, TypeError, EOFError)
"""Errors of the libraries for damaged contents."""


def lazy_months(
    title: str,
    months: Sequence[int],
    read: Callable[[ArraySlices], NDArray[np.float64]],
    shape: Sequence[int],
    axis: int = 0,
    chunk: int = MONTHS,
) -> dask.array.Array:
    """Return a lazy array that is read some months at a time.

    Args:
        title: file and variable, for messages.
        months: numbers of the months along ``axis``.
        read: function that returns the values of a part; it may raise the usual errors of files.
        shape: shape of the whole array.
        axis: axis of the months.
        chunk: months that are read at a time.

    Returns:
        array of float64; computing it raises :class:`DataError`, naming file and month, where a
        part cannot be read.
    """

    def read_block(block_info: Mapping[Any, Any]) -> NDArray[np.float64]:
        key = tuple(slice(start, stop) for start, stop in block_info[None]["array-location"])
        try:
            return _check(read, key)
        except _UNREADABLE as error:
            month = month_name(_first_unreadable(read, key, axis, months))
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise DataError(
                f"{title} of {month} cannot be read ({reason}); the file is damaged or cut: "
                "download it again"
            ) from error

    sizes = [-1] * len(shape)
    sizes[axis] = chunk
    chunks = normalize_chunks(tuple(sizes), tuple(shape))
    meta = np.empty((0,) * len(shape))
    return dask.array.map_blocks(read_block, chunks=chunks, dtype=meta.dtype, meta=meta)


def _check(
    read: Callable[[ArraySlices], NDArray[np.float64]], key: ArraySlices
) -> NDArray[np.float64]:
    """Return the values of a part, all of them."""
    expected = tuple(part.stop - part.start for part in key)
    values = np.asarray(read(key), np.float64)
    if values.shape != expected:
        raise ValueError(f"found {values.shape} values, expected {expected}")
    return values


def _first_unreadable(
    read: Callable[[ArraySlices], NDArray[np.float64]],
    key: ArraySlices,
    axis: int,
    months: Sequence[int],
) -> int:
    """Return the number of the first month of a part that cannot be read."""
    for index in range(key[axis].start, key[axis].stop):
        try:
            _check(read, (*key[:axis], slice(index, index + 1), *key[axis + 1 :]))
        except _UNREADABLE:
            return months[index]
    return months[key[axis].start]
