"""Times of work that a device replays as a whole, and of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vrtspike.monitoring.clocks import Clock, Mark

REPLAY = "replay"
"""Under this name stands replayed work whose parts are not known."""


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
