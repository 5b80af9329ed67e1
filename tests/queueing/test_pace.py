from __future__ import annotations

from vrtspike.queueing.pace import LONGEST_S, next_interval


def test_waiting_adds_a_tenth_at_most_and_never_more_than_a_minute():
    for quiet in range(0, 100_000, 37):
        interval = next_interval(5, quiet)
        assert 5 <= interval <= LONGEST_S
        assert interval == 5 or interval <= quiet / 10 + 1e-9
    assert next_interval(5, 300) == 30
    assert next_interval(90, 0) == 90


def test_a_busy_controller_is_asked_for_a_tenth_of_the_time_at_most():
    for quiet in (0, 50, 10_000):
        for answer in (0.0, 0.01, 0.5, 6.0):
            interval = next_interval(1, quiet, answer)
            assert answer <= 0.1 * (interval + answer) + 1e-9
    assert next_interval(1, 0, 0.01) == 1
    assert next_interval(1, 100, 0.5) == 10
    # Its programs have a time limit of their own, 30 s; nobody waits for five minutes.
    assert next_interval(1, 0, 29) == LONGEST_S
