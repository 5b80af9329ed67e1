"""How the arrays of stores are read: which library, and with which cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.store.cache import MEMORY_PER_BYTE, use_one_arena
from vrtspike.errors import DataError

Reader = Literal["tensorstore", "zarr"]
"""``zarr`` is the reference implementation, several times slower."""

ArrayRead: TypeAlias = Callable[[tuple[slice, ...]], NDArray[np.uint8]]
"""Reads a box of an array; every slice has its first and last element."""

_ABSENT = "delete the store and run snakemake again"

_INDEX_BYTES = 32_000_000
"""Memory for what is known of open files, beside the cache of chunks: where their chunks begin. A
file of four frames takes some 4 kB for each array."""


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


class ChunkReader:
    """Opens the arrays of stores for reading; one object per process and data set.

    It can be sent to worker processes: only the settings travel, each process makes its own cache
    (handles of tensorstore must not cross a fork).
    """

    def __init__(self, reader: Reader = "tensorstore", cache_bytes: int = 0) -> None:
        """Set up a reader; nothing is opened yet.

        Args:
            reader: the library; addresses of other file systems are always read by zarr.
            cache_bytes: memory for tensorstore's cache of decoded chunks in each process, see
                :func:`vrtspike.deblurring.data.store.cache.cache_share`; 0 is no cache.
        """
        self.reader = reader
        self.cache_bytes = cache_bytes
        self._context: Any = None
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: the settings."""
        return {**self.__dict__, "_context": None}

    def open_array(self, path: str, shape: tuple[int, ...]) -> ArrayRead:
        """Open one array for reading.

        Args:
            path: the array's folder or address.
            shape: what its shape must be.

        Raises:
            DataError: if there is no array of this shape at ``path``.
        """
        if is_remote(path):
            return _open_zarr(path, _remote(path))
        metadata = _metadata(path, "the array is missing")
        try:
            if metadata["shape"] != list(shape):
                raise ValueError(f"shape {metadata['shape']}, {list(shape)} expected")
            if self.reader == "zarr":
                return _open_zarr(path, path)
            return self._open_tensorstore(path)
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"{path}: zarr.json is damaged ({error!r}); {_ABSENT}") from error

    def _open_tensorstore(self, path: str) -> ArrayRead:
        # The libraries are imported on first use, so that planning does not pay for them.
        import tensorstore

        array = tensorstore.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str(Path(path).resolve())},
                "metadata_cache_pool": _INDEX_POOL,
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
            if self.cache_bytes:
                use_one_arena()
            limit = int(self.cache_bytes / MEMORY_PER_BYTE)
            self._context = tensorstore.Context(
                {
                    "cache_pool": {"total_bytes_limit": limit},
                    # Without a pool of its own, the index of a file is read anew for every crop
                    # where there is no cache, and pushed out by chunks where there is one.
                    _INDEX_POOL: {"total_bytes_limit": _INDEX_BYTES},
                    # A worker is one of many: it decodes on one thread.
                    "data_copy_concurrency": {"limit": 1},
                }
            )
        return self._context


_INDEX_POOL = "cache_pool#index"


def _open_zarr(path: str, store: Any) -> ArrayRead:  # noqa: ANN401 - a path or a zarr store
    import zarr

    array = zarr.open_array(store, mode="r")
    # zarr would read black frames out of a file that is lost. (Where the last file is not full, it
    # counts more chunks than there are.)
    if array.nchunks_initialized < array.nchunks:
        raise DataError(f"{path}: files are missing; {_ABSENT}")
    return lambda box: np.asarray(array[box], dtype=np.uint8)
