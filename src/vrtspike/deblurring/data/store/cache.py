"""How much memory decoded chunks may take, and how often they were found there.

One budget is given for the machine and divided among all reading processes. Within a process it is
the byte-bounded least-recently-used cache of tensorstore, which all stores of a data set share.
tensorstore counts for a process, not for a cache, so the use of one is the difference of its
counters after and before a read.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from vrtspike.monitoring.cache_use import CacheUse

if TYPE_CHECKING:
    from vrtspike.deblurring.settings.schema import DataSettings


MEMORY_PER_BYTE = 1.5
"""Memory that a cache takes for each byte of its chunks: the allocator leaves holes between them
(``benchmarks/chunks.py``: next to none between frames, 0.9 between counts)."""

_ARENA_MAX = -8
"""An option of ``mallopt``, from ``malloc.h``."""


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


def cache_use(limit_bytes: int = 0) -> CacheUse:
    """Counters of this process since its start, over all its caches.

    Args:
        limit_bytes: memory that they may take, for the result.
    """
    import tensorstore

    # Not hit_count and miss_count: they count the look-ups of files and of their indices, too, so
    # that a cache which finds no chunk at all would seem to hit two times in five.
    values = {
        metric["name"]: sum(value["value"] for value in metric["values"])
        for metric in tensorstore.experimental_collect_matching_metrics(_METRICS)
    }
    return CacheUse(
        lookups=values.get(f"{_METRICS}chunk_cache/reads", 0),
        reads=values.get(f"{_METRICS}kvs_cache_read", 0),
        evictions=values.get(f"{_METRICS}evict_count", 0),
        limit_bytes=limit_bytes,
    )


_METRICS = "/tensorstore/cache/"


def use_one_arena() -> None:
    """Let all threads of this process allocate from the same memory (glibc; elsewhere nothing).

    The threads of tensorstore come and go, and each may get an arena of its own, which keeps what
    was freed there: without this, a cache of 500 MB took 2.1 GB, and a sample half as long again.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
