"""Two clocks with one interface: the host's, and a device's by means of events.

Work that a device replays as a whole, as a CUDA graph, has marks that each replay sets again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Mark: TypeAlias = Any
"""A point in time: a float of the host's clock or an event on a device's stream."""

REPLAY = "replay"
"""Under this name stands replayed work whose parts are not known."""


class Clock:
    """Takes marks and tells, once they are complete, the time between two of them.

    These marks are the host's, each complete at once.
    """

    def mark(self) -> Mark:
        """The present point in time; never waits for the device."""
        return time.perf_counter()

    def recurring_mark(self) -> Mark:
        """A mark within work that is recorded now: each replay of the work sets it again."""
        return self.mark()

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
    return DeviceClock(device) if device.type == "cuda" else Clock()


class RecordedSections:
    """The sections of work that is recorded once and replayed often, as a CUDA graph is.

    Their marks are parts of the work: after a replay they hold its times, until the next one.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[str, Mark, Mark]] = []
        self.whole: tuple[Mark, Mark] | None = None
        self.depth = 0

    def shares(self, clock: Clock) -> dict[str, float] | None:
        """Each section's share of the latest replay; None where the device is still at it."""
        if self.whole is None or not clock.is_complete(self.whole[1]):
            return None
        total = clock.milliseconds(*self.whole)
        found: dict[str, float] = {}
        for path, start, end in self.spans:
            found[path] = found.get(path, 0.0) + clock.milliseconds(start, end) / max(total, 1e-9)
        return found


@dataclass
class Replay:
    """One replay of recorded work: where it ran, how long, and what its parts are."""

    path: str
    start: Mark
    end: Mark
    sections: RecordedSections
    shares: dict[str, float] | None = None

    def parts(self) -> Iterator[tuple[str, float]]:
        """Paths of the parts and their shares, those of the whole for parts that contain others."""
        for name, share in (self.shares or {REPLAY: 1.0}).items():
            yield (f"{self.path}/{name}" if self.path else name), share
