"""What validations come to over a run."""

from __future__ import annotations

from vrtspike.training.progress import Progress


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
