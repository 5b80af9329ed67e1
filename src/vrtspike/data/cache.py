"""How stores are read: which library, and how much memory decoded chunks may take.

One budget is given for the machine and divided among all reading processes. Within a process it is
the byte-bounded least-recently-used cache of tensorstore, which all stores of a data set share.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vrtspike.errors import DataError

if TYPE_CHECKING:
    from vrtspike.config.schema import DataSettings

Reader = Literal["tensorstore", "zarr"]


def cache_share(settings: DataSettings, processes: int) -> int:
    """Bytes of cache one process may use.

    Args:
        settings: DATA; CACHE_SIZE_GB is for the whole machine.
        processes: processes that read on this machine: ranks times workers of each, or the ranks
            themselves where they read without workers.
    """
    if not settings.USE_RAM_CACHE:
        return 0
    return int(settings.CACHE_SIZE_GB * 1e9) // max(1, processes)


@dataclass(frozen=True)
class CacheStatistics:
    """Look-ups in the caches of this process since it started."""

    hits: int
    misses: int

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that found a decoded chunk; 0 before the first look-up."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0


def cache_statistics() -> CacheStatistics:
    """Hits and misses of all caches of this process (chunks and indices of shards)."""
    import tensorstore

    def total(name: str) -> int:
        metrics = tensorstore.experimental_collect_matching_metrics(f"/tensorstore/cache/{name}")
        return sum(value["value"] for metric in metrics for value in metric["values"])

    return CacheStatistics(total("hit_count"), total("miss_count"))


class ChunkReader:
    """Opens the arrays of stores for reading; one object per process and data set.

    It can be sent to worker processes: only the settings travel, each process makes its own cache
    (handles of tensorstore must not cross a fork).
    """

    def __init__(self, reader: Reader = "tensorstore", cache_bytes: int = 0) -> None:
        """Set up a reader; nothing is opened yet.

        Args:
            reader: the library; tensorstore is several times faster than zarr.
            cache_bytes: limit of the cache of decoded chunks; 0 is no cache. The zarr reader has
                none.
        """
        self.reader = reader
        self.cache_bytes = cache_bytes
        self._context: Any = None
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: the settings."""
        return {**self.__dict__, "_context": None}

    def open_array(self, path: Path) -> Any:  # noqa: ANN401 - a handle of either library
        """Open one array for reading.

        Raises:
            DataError: if there is no array at ``path``.
        """
        if not (path / "zarr.json").is_file():
            raise DataError(
                f"{path}: the array is missing; delete the store and run voxelize again"
            )
        # The libraries are imported on first use, so that planning does not pay for them.
        if self.reader == "zarr":
            import zarr

            return zarr.open_array(path, mode="r")
        import tensorstore

        return tensorstore.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str(path.resolve())},
                "recheck_cached_data": False,
                "recheck_cached_metadata": False,
            },
            read=True,
            open=True,
            context=self._shared_context(),
        ).result()

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
