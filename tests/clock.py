"""A clock that a test moves, in place of the stopwatch's."""

from __future__ import annotations

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
    """The clock of every stopwatch."""
    made = Clock()
    moved = SimpleNamespace(perf_counter=lambda: made.now)
    monkeypatch.setattr("vrtspike.monitoring.stopwatch.time", moved)
    return made
