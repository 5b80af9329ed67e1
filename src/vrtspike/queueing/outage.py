"""A service that does not answer for a while, told once when it begins and once when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from vrtspike.durations import format_duration

AGAIN_S = 10
"""Seconds after which an unanswered question is asked again."""


class Outage:
    """Whether a service answers; several threads may ask it.

    Args:
        service: its name, at the beginning of a sentence.
        tell: shows a message.
        clock: seconds since any moment.
    """

    def __init__(
        self, service: str, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service, self._tell, self._clock = service, tell, clock
        self._since: float | None = None
        self._lock = threading.Lock()

    def failed(self, fault: str) -> None:
        """A question was not answered.

        Args:
            fault: why, in a line.
        """
        with self._lock:
            if self._since is not None:
                return
            self._since = self._clock()
        self._tell(
            f"{self._service} does not answer ({fault}); asking again every {AGAIN_S} s. Jobs that "
            "run go on meanwhile"
        )

    def answered(self) -> None:
        """A question was answered."""
        with self._lock:
            if self._since is None:
                return
            duration, self._since = self._clock() - self._since, None
        self._tell(f"{self._service} answers again, after {format_duration(duration)}")
