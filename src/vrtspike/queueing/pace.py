"""How often a queue is asked: soon after a job was submitted or ended, ever more rarely later."""

from __future__ import annotations

LONGEST_S = 60.0
"""Seconds between two questions at most: what a job of days may wait for its next."""
_SHARE = 0.1
_REST = 9
"""How much longer nothing is asked than the last answer took: a busy controller is spared."""


def next_interval(shortest_s: float, quiet_s: float, answer_s: float = 0.0) -> float:
    """Seconds until the next question.

    A tenth of the time since something happened, so that waiting adds at most a tenth to a job;
    and so much that no more than a tenth of the time is spent on questions.

    Args:
        shortest_s: the least.
        quiet_s: seconds since a job was last submitted or ended.
        answer_s: seconds that the last answer took.

    >>> [next_interval(5, quiet) for quiet in (0, 100, 86400)]
    [5, 10.0, 60.0]
    >>> next_interval(1, 0, answer_s=0.5)
    4.5
    """
    return max(shortest_s, min(LONGEST_S, max(_SHARE * quiet_s, _REST * answer_s)))
