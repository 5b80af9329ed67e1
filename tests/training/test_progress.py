"""What validations come to over a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.training import progress as module
from vrtspike.training.progress import EpochPace, Progress, Speed, StepResult


def test_a_metric_that_is_no_number_is_never_the_best():
    progress = Progress(step=1)
    nothing = float("nan")
    found = [progress.note_validation({"a": v}, "a", "a") for v in (nothing, 1.0, nothing, 2.0)]
    assert found == [False, True, False, True]
    assert progress.best == {"a": 2.0}
    assert progress.without_improvement == 0


def test_lower_can_be_better():
    progress = Progress()
    found = []
    for step, error in enumerate([3.0, 2.0, 2.5, float("nan"), 2.0, 1.0], start=1):
        progress.step = step
        figures = {"error": error, "skill": -error}
        found.append(progress.note_validation(figures, "error", "skill", lower=["error"]))
    assert found == [True, True, False, False, False, True]
    assert progress.best == {"error": 1.0, "skill": -1.0}
    assert progress.best_step == 6
    assert progress.without_improvement == 0


def validate(progress: Progress, **metrics: float) -> bool:
    progress.step += 10
    return progress.note_validation(metrics, "main", "watched")


def test_the_best_weights_are_the_main_metrics_and_patience_the_watched_ones():
    progress = Progress()
    found = [
        validate(progress, main=main, watched=watched)
        for main, watched in ((1.0, 5.0), (2.0, 4.0), (2.0, 4.5), (1.5, 6.0), (1.0, 6.0))
    ]
    # As good as the best is not better.
    assert found == [True, True, False, False, False]
    assert (progress.best_step, progress.validated_step) == (20, 50)
    assert progress.best == {"main": 2.0, "watched": 6.0}
    assert progress.metrics == {"main": 1.0, "watched": 6.0}
    assert progress.without_improvement == 1


def step_result(skipped: bool = False, samples: int = 4) -> StepResult:
    return StepResult({"a": 1.0, "b": 0.5}, 1e-3, 2.0, skipped, samples, 8, 1.0)


def test_steps_and_samples_are_counted_and_skipped_steps_in_a_row():
    progress = Progress()
    rows = []
    for skipped in (True, True, False, True):
        progress.count(step_result(skipped))
        rows.append(progress.skipped_in_a_row)
    assert rows == [1, 2, 0, 1]
    assert (progress.step, progress.samples, progress.skipped) == (4, 16, 3)
    assert step_result().loss == 1.5
    restored = Progress()
    restored.load_state_dict(progress.state_dict())
    assert restored == progress


def test_an_epoch_begins_at_zero_after_the_last():
    pace = EpochPace()
    pace.count(2.0, 3)
    pace.count(3.0, 7)
    assert pace.is_open
    assert pace.close() == {"seconds": 5.0, "samples": 10, "samples_per_second": 2.0}
    assert not pace.is_open
    pace.count(4.0, 2)
    assert pace.close() == {"seconds": 4.0, "samples": 2, "samples_per_second": 0.5}


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
