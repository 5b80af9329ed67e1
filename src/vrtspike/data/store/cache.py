"""How much memory decoded chunks may take, and how often they were found there.

One budget is given for the machine and divided among all reading processes. Within a process it is
the byte-bounded least-recently-used cache of tensorstore, which all stores of a data set share.
The mapped reader has no cache: reading a chunk of the page cache costs it hardly more than finding
a decoded one, and the page cache serves all processes and gives way to other uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrtspike.config.schema import DataSettings


def cache_share(settings: DataSettings, processes: int) -> int:
    """Bytes of cache one process may use.

    Args:
        settings: DATA; CACHE_SIZE_GB is for the whole machine, READER has a cache or not.
        processes: processes that read on this machine: ranks times workers of each, or the ranks
            themselves where they read without workers.
    """
    if not settings.USE_RAM_CACHE or settings.READER != "tensorstore":
        return 0
    return int(settings.CACHE_SIZE_GB * 1e9) // max(1, processes)


@dataclass(frozen=True)
class CacheStatistics:
    """Look-ups in caches of decoded chunks."""

    hits: int
    misses: int
    evictions: int = 0
    """Entries that were dropped because the cache was full."""

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that found a decoded chunk; 0 before the first look-up."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0


def cache_statistics() -> CacheStatistics:
    """Look-ups of all caches of this process (chunks and indices of shards)."""
    import tensorstore

    def total(name: str) -> int:
        metrics = tensorstore.experimental_collect_matching_metrics(f"/tensorstore/cache/{name}")
        return sum(value["value"] for metric in metrics for value in metric["values"])

    return CacheStatistics(total("hit_count"), total("miss_count"), total("evict_count"))
