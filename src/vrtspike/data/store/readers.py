"""How the arrays of stores are read: which library, and with which cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.store.mapped import MappedArray, MappedCounts
from vrtspike.errors import DataError

Reader = Literal["mapped", "tensorstore", "zarr"]
"""``mapped`` maps files into memory and leaves arrays of other kinds to tensorstore."""

ArrayRead: TypeAlias = Callable[[tuple[slice, ...]], NDArray[np.uint8]]
"""Reads a box of an array; every slice has its first and last element."""

_ABSENT = "delete the store and run voxelize again"


def is_remote(path: str) -> bool:
    """Whether a path is an address of another file system, such as ``s3://bucket/x.zarr``."""
    return "://" in path


def read_attributes(path: str) -> dict[str, Any]:
    """Attributes of a Zarr group.

    Raises:
        DataError: if there is none that can be read.
    """
    if is_remote(path):
        import zarr

        try:
            return dict(zarr.open_group(_remote(path), mode="r").attrs)
        except OSError as error:
            raise DataError(f"{path}: no readable store ({error})") from error
    attributes = _metadata(path, "no readable store").get("attributes")
    return attributes if isinstance(attributes, dict) else {}


def _metadata(path: str, otherwise: str) -> dict[str, Any]:
    """Contents of a ``zarr.json``; a DataError that says ``otherwise`` without any."""
    try:
        metadata = json.loads((Path(path) / "zarr.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {otherwise} ({error}); {_ABSENT}") from error
    return metadata if isinstance(metadata, dict) else {}


def _remote(path: str) -> Any:  # noqa: ANN401 - a zarr store
    from zarr.storage import FsspecStore

    return FsspecStore.from_url(path, read_only=True)


def keep_freed_memory() -> None:
    """Teach the C library's allocator to keep what samples free for the next ones.

    By default it returns blocks of this size to the operating system, and to get their pages again
    costs a reading process half of its time (1,700 page faults a sample against 120). glibc raises
    its thresholds to the size of the largest block (up to 32 MB) that was freed so far; elsewhere
    this does nothing.
    """
    np.empty(_LARGE_BLOCK, np.uint8)


_LARGE_BLOCK = 30_000_000


class ChunkReader:
    """Opens the arrays of stores for reading; one object per process and data set.

    It can be sent to worker processes: only the settings travel, each process makes its own cache
    (handles of tensorstore must not cross a fork).
    """

    def __init__(self, reader: Reader = "mapped", cache_bytes: int = 0) -> None:
        """Set up a reader; nothing is opened yet.

        Args:
            reader: the library; zarr is several times slower than the others.
            cache_bytes: limit of tensorstore's cache of decoded chunks; 0 is no cache. The mapped
                reader has none: the operating system's page cache serves all processes.
        """
        self.reader = reader
        self.cache_bytes = cache_bytes
        self._context: Any = None
        self._process = os.getpid()
        self._prepared = 0

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: the settings."""
        return {**self.__dict__, "_context": None}

    def open_array(self, path: str, shape: tuple[int, ...], largest: int = 255) -> ArrayRead:
        """Open one array for reading.

        Args:
            path: the array's folder or address.
            shape: what its shape must be.
            largest: no number of the array is larger.

        Raises:
            DataError: if there is no array of this shape at ``path``.
        """
        if self._prepared != os.getpid():
            self._prepared = os.getpid()
            keep_freed_memory()
        if is_remote(path):
            return _open_zarr(_remote(path))
        metadata = _metadata(path, "the array is missing")
        try:
            if metadata["shape"] != list(shape):
                raise ValueError(f"shape {metadata['shape']}, {list(shape)} expected")
            return self._open_local(path, metadata, largest)
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"{path}: zarr.json is damaged ({error!r}); {_ABSENT}") from error

    def _open_local(self, path: str, metadata: dict[str, Any], largest: int) -> ArrayRead:
        if self.reader == "zarr":
            return _open_zarr(path)
        if self.reader == "mapped" and MappedArray.can_read(metadata):
            return MappedArray(Path(path), metadata).read
        if self.reader == "mapped" and MappedCounts.can_read(metadata, largest):
            return MappedCounts(Path(path), metadata, largest).read
        return self._open_tensorstore(path)

    def _open_tensorstore(self, path: str) -> ArrayRead:
        # The libraries are imported on first use, so that planning does not pay for them.
        import tensorstore

        array = tensorstore.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str(Path(path).resolve())},
                "recheck_cached_data": False,
                "recheck_cached_metadata": False,
                # A lost file is an error, not black frames.
                "fill_missing_data_reads": False,
            },
            read=True,
            open=True,
            context=self._shared_context(),
        ).result()
        return lambda box: np.asarray(array[box].read().result(), dtype=np.uint8)

    def _shared_context(self) -> Any:  # noqa: ANN401 - a tensorstore.Context
        import tensorstore

        if self._context is None or self._process != os.getpid():
            self._process = os.getpid()
            self._context = tensorstore.Context(
                {
                    "cache_pool": {"total_bytes_limit": self.cache_bytes},
                    # A worker is one of many: it decodes on one thread.
                    "data_copy_concurrency": {"limit": 1},
                }
            )
        return self._context


def _open_zarr(store: Any) -> ArrayRead:  # noqa: ANN401 - a path or a zarr store
    import zarr

    array = zarr.open_array(store, mode="r")
    return lambda box: np.asarray(array[box], dtype=np.uint8)
