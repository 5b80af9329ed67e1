from __future__ import annotations

from vrtspike.queueing.pace import LONGEST_S, next_interval


def test_waiting_adds_a_tenth_at_most_and_never_more_than_a_minute():
    for quiet in range(0, 100_000, 37):
        interval = next_interval(5, quiet)
        assert 5 <= interval <= LONGEST_S
        assert interval == 5 or interval <= quiet / 10 + 1e-9
    assert next_interval(5, 300) == 30
    assert next_interval(90, 0) == 90
