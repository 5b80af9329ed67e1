"""Counters of the cache of decoded chunks."""

from __future__ import annotations

from typing import NamedTuple


class CacheStats(NamedTuple):
    """Counters of caches of decoded chunks.

    Attributes:
        lookups: requested chunks.
        reads: reads from files after a miss: chunks, and the index of each file and array once.
        evictions: entries dropped because a cache was full.
        limit_bytes: size limit of the caches.
    """

    lookups: int
    reads: int
    evictions: int = 0
    limit_bytes: int = 0

    def record(self) -> dict[str, float]:
        """Return the entry ``cache`` of a record of memory; every read has added an item.

        >>> CacheStats(lookups=40, reads=10, evictions=2).record()["hit_rate"]
        0.75
        """
        hits = max(0, self.lookups - self.reads)
        return {
            "hits": hits,
            "misses": self.lookups - hits,
            "evictions": self.evictions,
            "items": self.reads - self.evictions,
            "hit_rate": round(hits / max(1, self.lookups), 4),
            "limit_mb": round(self.limit_bytes / 2**20, 1),
            "full": self.evictions > 0,
        }
