"""Two clocks with one interface: the host's, and a device's by means of events."""

from __future__ import annotations

import time
from typing import Any, Protocol, TypeAlias

import torch

Mark: TypeAlias = Any
"""A point in time: a float of the host's clock or an event on a device's stream."""


class Clock(Protocol):
    """Takes marks and tells, once they are complete, the time between two of them."""

    def mark(self) -> Mark:
        """The present point in time; never waits for the device."""

    def recurring_mark(self) -> Mark:
        """A mark within work that is recorded now: each replay of the work sets it anew."""

    def milliseconds(self, start: Mark, end: Mark) -> float:
        """The time between two complete marks."""

    def is_complete(self, mark: Mark) -> bool:
        """Whether the device has reached ``mark``."""

    def wait(self, mark: Mark) -> None:
        """Wait until the device has reached ``mark``."""

    def release(self, *marks: Mark) -> None:
        """Give marks back for further use."""


class HostClock:
    """Times of the host; every mark is complete at once."""

    def mark(self) -> Mark:
        """Seconds of :func:`time.perf_counter`."""
        return time.perf_counter()

    def recurring_mark(self) -> Mark:
        """The present point in time; what the host does is done at once and not recorded."""
        return self.mark()

    def milliseconds(self, start: Mark, end: Mark) -> float:
        """The time between two marks."""
        return float(end - start) * 1e3

    def is_complete(self, mark: Mark) -> bool:
        """True: the host's marks are past when they exist."""
        return True

    def wait(self, mark: Mark) -> None:
        """Return at once."""

    def release(self, *marks: Mark) -> None:
        """Do nothing: a float needs no pool."""


class DeviceClock:
    """CUDA events on the device's current stream, taken from and given back to a pool."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: list[torch.cuda.Event] = []

    def mark(self) -> Mark:
        """An event recorded behind the work that has been launched so far."""
        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def recurring_mark(self) -> Mark:
        """An event of the CUDA graph that the current stream records, outside of the pool."""
        event = torch.cuda.Event(enable_timing=True, external=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def milliseconds(self, start: Mark, end: Mark) -> float:
        """The device's time between two complete events."""
        return float(start.elapsed_time(end))

    def is_complete(self, mark: Mark) -> bool:
        """Whether the device has passed the event."""
        return bool(mark.query())

    def wait(self, mark: Mark) -> None:
        """Wait for the event."""
        mark.synchronize()

    def release(self, *marks: Mark) -> None:
        """Return events to the pool."""
        self._pool.extend(marks)


def clock_for(device: torch.device) -> Clock:
    """The clock that tells the truth about work on ``device``."""
    return DeviceClock(device) if device.type == "cuda" else HostClock()
