"""Counters, best metrics and throughput of a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.system.errors import RunError
from vrtspike.training import progress as module
from vrtspike.training.progress import RunCounters, Throughput


def test_the_best_weights_and_patience_follow_the_watched_metric():
    counters = RunCounters()
    result = []
    errors, skills = [3.0, 2.0, 2.5, float("nan"), 2.0, 1.0], [5.0, 6.0, 4.0, 6.5, 6.0, 6.5]
    for error, skill in zip(errors, skills, strict=True):
        counters.step += 10
        metrics = {"error": error, "skill": skill}
        result.append(counters.note_validation(metrics, "error", lower=["error"]))
    # As good as the best is not better, and what is no number is never the best.
    assert result == [True, True, False, False, False, True]
    assert counters.best == {"error": 1.0, "skill": 6.5}
    assert counters.metrics == {"error": 1.0, "skill": 6.5}
    assert (counters.best_step, counters.validated_step) == (60, 60)
    assert counters.without_improvement == 0
    counters.note_validation({"error": 1.0, "skill": 9.0}, "error", lower=["error"])
    assert counters.best == {"error": 1.0, "skill": 9.0}
    assert (counters.best_step, counters.without_improvement) == (60, 1)


@pytest.mark.parametrize("change", [{"step": None}, {"novel": 3}])
def test_progress_of_another_version_is_refused(change):
    state = {**RunCounters(step=3).state_dict(), **change}
    state = {name: value for name, value in state.items() if value is not None}
    with pytest.raises(RunError, match=r"found keys .*, expected step, .*: another version"):
        RunCounters().load_state_dict(state)


def test_a_state_is_restored_as_it_was():
    counters = RunCounters(step=3, best={"skill": 0.5}, best_step=2)
    restored = RunCounters()
    restored.load_state_dict(counters.state_dict())
    assert restored == counters


def test_throughput_is_smoothed_and_what_remains_follows_from_this_process(monkeypatch):
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    throughput = Throughput(step=10, total_steps=30)
    assert throughput.remaining_seconds(10) == 0.0
    now = 102.0
    assert throughput.count(8) == 2.0
    assert throughput.samples_per_second == 4.0
    now = 103.0
    assert throughput.count(14) == 1.0
    # A tenth of the way from 4 to 14.
    assert throughput.samples_per_second == pytest.approx(5.0)
    # Two steps in three seconds; eighteen are left.
    assert throughput.remaining_seconds(12) == pytest.approx(27.0)
