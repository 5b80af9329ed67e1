"""Counters of a cache; an example of their record is in its docstring."""

from __future__ import annotations

from vrtspike.monitoring.cache_stats import CacheStats


def test_a_process_that_has_just_begun_has_no_hits():
    begun = CacheStats(lookups=9, reads=15).record()  # it has read more than chunks
    values = [begun[name] for name in ("hits", "misses", "hit_rate", "full")]
    assert values == [0, 9, 0, False]
    assert CacheStats(0, 0).record()["hit_rate"] == 0
