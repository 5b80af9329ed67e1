"""How often readers find what they need in a cache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheUse:
    """What reading found in caches of decoded chunks.

    Attributes:
        lookups: chunks that were asked for.
        reads: what was read from files because it was not there: chunks, and once for each file and
            array what tells where their chunks are.
        evictions: entries dropped because a cache was full.
        limit_bytes: memory that the caches may take.
    """

    lookups: int
    reads: int
    evictions: int = 0
    limit_bytes: int = 0

    def __sub__(self, earlier: CacheUse) -> CacheUse:
        """What came since the counters of the same process were as in ``earlier``."""
        return CacheUse(
            self.lookups - earlier.lookups,
            self.reads - earlier.reads,
            self.evictions - earlier.evictions,
            self.limit_bytes,
        )

    @property
    def hits(self) -> int:
        """Chunks that were found."""
        return max(0, self.lookups - self.reads)

    @property
    def misses(self) -> int:
        """Chunks that were read and decoded."""
        return self.lookups - self.hits

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that found a decoded chunk; 0 before the first look-up."""
        return self.hits / self.lookups if self.lookups else 0.0

    @property
    def items(self) -> int:
        """Entries in the caches now: every read has added one."""
        return self.reads - self.evictions

    @property
    def is_full(self) -> bool:
        """Whether the caches hold as much as they may; until then they drop nothing."""
        return self.evictions > 0
