"""How often a queue is asked: soon after a job was submitted or ended, ever more rarely later."""

from __future__ import annotations

LONGEST_S = 60.0
"""Seconds between two questions at most: what a job of days may wait for its next."""
_SHARE = 0.1


def next_interval(shortest_s: float, quiet_s: float) -> float:
    """Seconds until the next question.

    A tenth of the time since something happened, so that waiting adds at most a tenth to a job.

    Args:
        shortest_s: the least.
        quiet_s: seconds since a job was last submitted or ended.

    >>> [next_interval(5, quiet) for quiet in (0, 100, 86400)]
    [5, 10.0, 60.0]
    """
    return max(shortest_s, min(LONGEST_S, _SHARE * quiet_s))
