"""Reading of stores: crops of consecutive frames, by tensorstore, with a cache of decoded chunks.

A memory budget is set for the machine and divided among all reading processes. Within a process the
cache is the byte-bounded least-recently-used one of tensorstore, which all stores of a data set
share. tensorstore counts for a process, not for a cache, so the use of one is the difference of its
counters after and before a read.

The library is imported on first use, so that planning does not pay for it.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.store.metadata import SCHEMA, StoreMetadata
from vrtspike.io.files import read_json
from vrtspike.monitoring.cache_stats import CacheStats
from vrtspike.system.errors import DataError

if TYPE_CHECKING:
    from vrtspike.deblurring_settings.data import DataSettings

MEMORY_PER_BYTE = 1.25
"""Memory that the cache of a worker takes for each byte of its chunks, the holes between them
included (``benchmarks/data.py``: "memory taken of what was given")."""

TRIM_EVERY = 192
"""Array reads between two calls of :func:`trim_memory`; a sample takes three."""

_READS = itertools.count(1)

_AGAIN = "delete the store and run snakemake again"

_INDEX_POOL = "cache_pool#index"
_INDEX_BYTES = 32_000_000
"""Memory for the indices of open files (the places of their chunks), without the cache of chunks. A
file of four frames takes some 4 kB for each array."""

_METRICS = "/tensorstore/cache/"


def cache_share(settings: DataSettings, processes: int) -> int:
    """Return bytes of cache one process may use.

    Args:
        settings: DATA; CACHE_SIZE_GB is for the whole machine.
        processes: processes that read on this machine: ranks times workers of each, or the ranks
            themselves if they read without workers.
    """
    if not settings.USE_RAM_CACHE:
        return 0
    return int(settings.CACHE_SIZE_GB * 1e9) // max(1, processes)


def cache_stats(limit_bytes: int = 0) -> CacheStats:
    """Return counters of this process since its start, over all its caches.

    Args:
        limit_bytes: memory that they may take, for the result.
    """
    import tensorstore

    # hit_count and miss_count are not used, because they count the look-ups of files and of their
    # indices, too, so that a cache which finds no chunk at all would seem to hit two times in five.
    values = {}
    for metric in tensorstore.experimental_collect_matching_metrics(_METRICS):
        values[metric["name"]] = sum(value["value"] for value in metric["values"])
    return CacheStats(
        lookups=values.get(f"{_METRICS}chunk_cache/reads", 0),
        reads=values.get(f"{_METRICS}kvs_cache_read", 0),
        evictions=values.get(f"{_METRICS}evict_count", 0),
        limit_bytes=limit_bytes,
    )


@cache
def _context(cache_bytes: int) -> Any:  # noqa: ANN401 - a tensorstore.Context
    """Return the caches of this process that all stores with an equal budget share."""
    import tensorstore

    if cache_bytes:
        # The threads of tensorstore come and go, and each may get memory of its own.
        _libc("mallopt", -8, 1)  # M_ARENA_MAX of malloc.h
    return tensorstore.Context(
        {
            "cache_pool": {"total_bytes_limit": int(cache_bytes / MEMORY_PER_BYTE)},
            # Without a pool of its own, the index of a file is read again for every crop
            # where there is no cache, and pushed out by chunks where there is one.
            _INDEX_POOL: {"total_bytes_limit": _INDEX_BYTES},
            # A worker is one of many: it decodes on one thread.
            "data_copy_concurrency": {"limit": 1},
        }
    )


def trim_memory() -> None:
    """Return free pages of this process to the system (glibc; elsewhere nothing happens).

    Chunks that leave the cache leave holes: without this, workers whose cache was never over its
    limit took twice the memory.
    """
    _libc("malloc_trim", 0)


def _libc(name: str, *arguments: int) -> None:
    """Call a function of the C library if it has this function."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)


class Store:
    """A store opened for reading; it can be sent to worker processes."""

    def __init__(self, path: str | os.PathLike[str], cache_bytes: int = 0) -> None:
        """Read the store's attributes.

        Args:
            path: the store's folder.
            cache_bytes: memory for the cache of decoded chunks in each process, which all stores
                share, see :func:`cache_share`; 0 means no cache.

        Raises:
            DataError: if there is no store, it was written by another version of the project, or
                its attributes are damaged.
        """
        self.path = str(path)
        self._cache_bytes = cache_bytes
        self._arrays: dict[str, Any] = {}
        try:
            attributes = read_json(Path(path) / "zarr.json")["attributes"]
            schema = attributes["schema"]
            if schema != SCHEMA:
                raise ValueError(f"found schema {schema}, expected {SCHEMA}")
            self.metadata = StoreMetadata.from_attributes(attributes)
            self.gain: float | None = attributes["gain"]
            if (self.gain is None) != (self.metadata.spike_size is None):
                raise ValueError(f"gain {self.gain} for spikes of {self.metadata.spike_size}")
        except (OSError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DataError(f"{path}: no store that can be read ({error!r}); {_AGAIN}") from error

    def __getstate__(self) -> dict[str, Any]:
        """The state without handles of tensorstore, which must not cross a fork."""
        return {**vars(self), "_arrays": {}}

    def _array(self, name: str) -> Any:  # noqa: ANN401 - a tensorstore.TensorStore
        """Return an array, opened on first use."""
        import tensorstore

        if name not in self._arrays:
            array = tensorstore.open(
                {
                    "driver": "zarr3",
                    "kvstore": {"driver": "file", "path": str(Path(self.path, name).resolve())},
                    "metadata_cache_pool": _INDEX_POOL,
                    # The data that another store of this process has read may have changed.
                    "recheck_cached_data": "open",
                    "recheck_cached_metadata": "open",
                    # A lost file is an error, not black frames.
                    "fill_missing_data_reads": False,
                },
                read=True,
                open=True,
                context=_context(self._cache_bytes),
            ).result()
            shape = self.metadata.shapes[name]
            if array.shape != shape:
                raise ValueError(f"the array is missing or damaged: {array.shape}, not {shape}")
            self._arrays[name] = array
        return self._arrays[name]

    def read(self, name: str, frames: slice, rows: slice, columns: slice) -> NDArray[np.uint8]:
        """Read a crop of consecutive frames.

        Args:
            name: one of :attr:`StoreMetadata.shapes`.
            frames: indices of the frames.
            rows: rows in the array's own pixels.
            columns: columns in the array's own pixels (of ``bits``: in bytes).

        Returns:
            uint8, the crop with the array's axes.

        Raises:
            DataError: if the array is missing, or a chunk cannot be read or decoded.
        """
        planes = [slice(None)] if name in ("voxels", "bits") else []
        box = (frames, *planes, rows, columns)
        try:
            values = np.asarray(self._array(name)[box].read().result(), dtype=np.uint8)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"{self.path}/{name}: frames {frames.start} to {frames.stop - 1} cannot be read "
                f"({error}); {_AGAIN}"
            ) from error
        if self._cache_bytes and next(_READS) % TRIM_EVERY == 0:
            trim_memory()
        return values

    def frame(self, name: str, index: int) -> NDArray[np.uint8]:
        """Read a whole frame of an array, by its number; the errors of :meth:`read`."""
        return self.read(name, slice(index, index + 1), slice(None), slice(None))[0]
