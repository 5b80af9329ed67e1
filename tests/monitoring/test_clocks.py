"""Times of recorded work, by a clock that a replay sets as a device's events are set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.monitoring.test_timing import one_step, records
from vrtspike.monitoring import timing as module
from vrtspike.monitoring.clocks import Clock
from vrtspike.monitoring.timing import TimingLogger, section


@dataclass
class Event:
    """A point in time; None until the device has reached it."""

    ms: float | None = None


class EventClock(Clock):
    """Events of a device whose time a test tells; a replay sets the recurring ones."""

    def __init__(self) -> None:
        self.now, self.reached = 0.0, math.inf
        self.recurring: list[Event] = []

    def mark(self) -> Event:
        return Event(self.now)

    def recurring_mark(self) -> Event:
        self.recurring.append(Event())
        return self.recurring[-1]

    def milliseconds(self, start: Event, end: Event) -> float:
        return end.ms - start.ms

    def is_complete(self, mark: Event) -> bool:
        return mark.ms is not None and mark.ms <= self.reached

    def release(self, *marks: Event) -> None:
        assert not any(mark is own for mark in marks for own in self.recurring)

    def replay(self, *lengths: float) -> None:
        """Pass the recurring events, one after so many milliseconds each."""
        for event, length in zip(self.recurring, lengths, strict=True):
            self.now += length
            event.ms = self.now


@pytest.fixture
def clock(monkeypatch) -> EventClock:
    clock = EventClock()
    monkeypatch.setattr(module, "clock_for", lambda device: clock)
    return clock


def times(folder: Path) -> list[dict[str, float]]:
    return [record["ms"] for record in records(folder)]


def record_a_pass(timing: TimingLogger):
    """Two sections, one of which holds one of two that have a name."""
    with timing.recording() as sections:
        with section("forward"):
            with section("vrt/stage1"):
                pass
            with section("vrt/stage1"):
                pass
        with section("backward"):
            pass
    return sections


# Nine gaps lie between the ten events of that pass, the first of which begins it.
PASS = (0.0, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 8.0, 2.0)


def test_parts_of_replays_divide_their_measured_time(tmp_path, clock):
    with one_step(tmp_path) as timing, section("step"):
        # Counted when it is replayed only.
        sections = record_a_pass(timing)
        assert len(clock.recurring) == len(PASS)
        for factor in (2.0, 1.0):
            clock.now += 5.0
            with timing.replaying(sections):
                clock.replay(*(factor * length for length in PASS))
        with section("optimizer"):
            clock.now += 4.0
    (ms,) = times(tmp_path)
    # A replay of 20 ms, one of twice as much, and 14 ms besides.
    assert ms == {
        "step": 74.0,
        "step/optimizer": 4.0,
        "step/forward": pytest.approx(3 * 8.0),
        "step/forward/vrt": pytest.approx(3 * 5.0),
        "step/forward/vrt/stage1": pytest.approx(3 * 5.0),
        "step/backward": pytest.approx(3 * 8.0),
    }


def test_a_step_is_written_when_its_last_replay_has_ended(tmp_path, clock):
    timing = TimingLogger(tmp_path, "cpu", console=False, file_interval=1)
    with timing.activate():
        sections = record_a_pass(timing)
        with timing.section("data"):
            clock.now += 1.0
        clock.reached = clock.now
        with timing.replaying(sections):
            clock.replay(*PASS)
    timing.step()
    timing.step()
    assert times(tmp_path) == []
    clock.reached = clock.now
    timing.step()
    assert len(times(tmp_path)) == 3
    timing.close()


def test_a_replay_whose_parts_are_not_known_is_named_as_a_whole(tmp_path, clock):
    with one_step(tmp_path) as timing, section("step"):
        sections = record_a_pass(timing)
        with timing.replaying(sections):
            clock.now += 7.0  # The device has not set the marks yet.
    assert times(tmp_path) == [{"step": 7.0, "step/replay": 7.0}]


def test_a_failed_recording_leaves_the_names_of_later_sections_as_they_are(tmp_path, clock):
    def fail() -> None:
        raise RuntimeError("no marks any more")

    with one_step(tmp_path) as timing, section("step"):
        with pytest.raises(RuntimeError), timing.recording(), section("forward"):
            clock.recurring_mark = fail
        with section("backward"):
            clock.now += 1.0
    assert times(tmp_path) == [{"step": 1.0, "step/backward": 1.0}]
