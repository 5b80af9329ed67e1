"""Clocks of the host and of a CUDA device (by events), with one interface."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import torch

Mark: TypeAlias = Any
"""A point in time: a float of the host's clock or an event on a device's stream."""


class Clock:
    """Takes marks and measures the time between two complete ones; the host's clock."""

    def mark(self) -> Mark:
        """Mark the present time, without synchronisation."""
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
        """Return marks to the pool."""


class DeviceClock(Clock):
    """CUDA events on the device's current stream, from a pool."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: list[torch.cuda.Event] = []

    def mark(self) -> Mark:
        """Record an event after the work launched so far."""
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
    """The clock for work on ``device``."""
    return DeviceClock(device) if device.type == "cuda" else Clock()
