"""A clock that a test moves, in place of that of stopwatches and timed sections."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock of every stopwatch and timed section; dates are those of the system."""
    made = Clock()
    dates = {"time": time.time, "gmtime": time.gmtime, "strftime": time.strftime}
    moved = SimpleNamespace(perf_counter=lambda: made.now, **dates)
    monkeypatch.setattr("vrtspike.monitoring.timing.time", moved)
    return made
