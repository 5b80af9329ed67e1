"""The time limit of this process's batch job."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from vrtspike.cluster.slurm_job import slurm_seconds_left

JOB_END = "VRTSPIKE_JOB_ENDS"
"""Environment variable: end of the job's wall time, in seconds since 1970."""

LIMIT_CHECK_INTERVAL_S = 60.0
"""Seconds between two queries of a job's end, which may be changed meanwhile."""

MARGIN_S = 90.0
"""Seconds before the end of a job at which training is stopped."""


class TimeLimit:
    """Time at which the program of a batch job must be stopped.

    Args:
        left: function that returns the seconds until the job ends, infinite without limit. If it
            returns None, as while a controller restarts, the last known end is used.

    Attributes:
        reached: True once the program has to be stopped.
    """

    def __init__(self, left: Callable[[], float | None]) -> None:
        self._left = left
        self._margin: float | None = None
        self._end = math.inf
        self.seconds()
        self.reached = False

    def seconds(self) -> float:
        """Return the seconds until the program must be stopped, :data:`MARGIN_S` before the end.

        The margin of a short job is a quarter of its time.
        """
        left = self._left()
        if left is not None:
            self._end = time.monotonic() + left
            if self._margin is None and left < math.inf:
                self._margin = min(MARGIN_S, max(0.0, left) / 4)
        rest = max(0.0, self._end - time.monotonic() - (self._margin or 0.0))
        self.reached = rest == 0.0
        return rest


def time_limit(variables: Mapping[str, str]) -> TimeLimit | None:
    """Return the time limit of a batch job, if any.

    Args:
        variables: environment of the job.
    """
    job = variables.get("SLURM_JOB_ID")
    if job:
        return TimeLimit(lambda: slurm_seconds_left(job))
    end = variables.get(JOB_END, "")
    if end.isdigit():
        return TimeLimit(lambda: float(end) - time.time())
    return None
