"""Two clocks with one interface: the host's, and a device's by means of events."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import torch

Mark: TypeAlias = Any
"""A point in time: a float of the host's clock or an event on a device's stream."""


class Clock:
    """Takes marks and tells, once they are complete, the time between two of them.

    These marks are the host's, each complete at once.
    """

    def mark(self) -> Mark:
        """The present point in time; never waits for the device."""
        return time.perf_counter()

    def milliseconds(self, start: Mark, end: Mark) -> float:
        """The time between two complete marks."""
        return float(end - start) * 1e3

    def is_complete(self, mark: Mark) -> bool:
        """Whether the device has reached ``mark``."""
        return True

    def wait(self, mark: Mark) -> None:
        """Wait until the device has reached ``mark``."""

    def release(self, *marks: Mark) -> None:
        """Give marks back for further use."""


class DeviceClock(Clock):
    """CUDA events on the device's current stream, taken from and given back to a pool."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: list[torch.cuda.Event] = []

    def mark(self) -> Mark:
        """An event recorded behind the work that has been launched so far."""
        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
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
    return DeviceClock(device) if device.type == "cuda" else Clock()
