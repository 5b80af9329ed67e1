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
