"""Counters, best metrics and speed of a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.training import progress as module
from vrtspike.training.progress import Progress, Speed


def test_the_best_weights_and_patience_follow_the_watched_metric():
    progress = Progress()
    result = []
    errors, skills = [3.0, 2.0, 2.5, float("nan"), 2.0, 1.0], [5.0, 6.0, 4.0, 6.5, 6.0, 6.5]
    for error, skill in zip(errors, skills, strict=True):
        progress.step += 10
        figures = {"error": error, "skill": skill}
        result.append(progress.note_validation(figures, "error", lower=["error"]))
    # As good as the best is not better, and what is no number is never the best.
    assert result == [True, True, False, False, False, True]
    assert progress.best == {"error": 1.0, "skill": 6.5}
    assert progress.metrics == {"error": 1.0, "skill": 6.5}
    assert (progress.best_step, progress.validated_step) == (60, 60)
    assert progress.without_improvement == 0
    progress.note_validation({"error": 1.0, "skill": 9.0}, "error", lower=["error"])
    assert progress.best == {"error": 1.0, "skill": 9.0}
    assert (progress.best_step, progress.without_improvement) == (60, 1)


def test_speed_is_smoothed_and_what_remains_follows_from_this_process(monkeypatch):
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    speed = Speed(step=10, total=30)
    assert speed.remaining(10) == 0.0
    now = 102.0
    assert speed.count(8) == 2.0
    assert speed.samples_per_second == 4.0
    now = 103.0
    assert speed.count(14) == 1.0
    # A tenth of the way from 4 to 14.
    assert speed.samples_per_second == pytest.approx(5.0)
    # Two steps in three seconds; eighteen are left.
    assert speed.remaining(12) == pytest.approx(27.0)
