"""The end of a job's wall time, where the job itself was told when that is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from vrtspike.queueing.batch_systems import JOB_ENDS

MARGIN_S = 90.0
"""Seconds before the end of a job at which training is stopped, unless a signal came before."""


class Limit(Protocol):
    """How long a program may go on."""

    def seconds(self) -> float:
        """Seconds until it must be asked to stop."""
        ...


def margin(left_s: float) -> float:
    """:data:`MARGIN_S`, but a quarter of a short job's time at most.

    >>> margin(3600), margin(60)
    (90.0, 15.0)
    """
    return min(MARGIN_S, max(0.0, left_s) / 4)


class JobEnd:
    """An end that stays as it is.

    Args:
        end: seconds since 1970.
    """

    def __init__(self, end: float) -> None:
        self._stop = end - margin(end - time.time())

    def seconds(self) -> float:
        """Seconds until training must be asked to stop."""
        return max(0.0, self._stop - time.time())


def job_end(environment: Mapping[str, str]) -> JobEnd | None:
    """The end of the job that this process belongs to, if it was told any."""
    told = environment.get(JOB_ENDS, "")
    return JobEnd(float(told)) if told.isdigit() else None
