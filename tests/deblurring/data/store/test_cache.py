"""What the counters of a cache say; what reading makes of them:
tests/deblurring/data/clips/test_clips.py."""

from __future__ import annotations

from vrtspike.monitoring.cache_use import CacheUse


def test_hits_and_misses_are_parts_of_the_look_ups():
    use = CacheUse(lookups=40, reads=10, evictions=2)
    assert (use.hits, use.misses, use.hit_rate) == (30, 10, 0.75)
    assert (use.items, use.is_full) == (8, True)


def test_a_process_that_has_begun_has_read_more_than_chunks():
    begun = CacheUse(lookups=9, reads=15)
    assert (begun.hits, begun.misses, begun.hit_rate) == (0, 9, 0)
    assert not begun.is_full
    assert CacheUse(0, 0).hit_rate == 0


def test_a_difference_is_what_came_in_between():
    later, earlier = CacheUse(50, 20, 5, limit_bytes=7), CacheUse(30, 15, 1)
    assert later - earlier == CacheUse(20, 5, 4, limit_bytes=7)
