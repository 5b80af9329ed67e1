"""The evaluations of runs: which belongs to which run, and their figures for tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.evaluation.names import SUMMARY
from vrtspike.files import read_json
from vrtspike.metrics import Metric
from vrtspike.problems import DEFAULT, find_problem

Summary = Mapping[str, Any]
"""The contents of an evaluation's ``summary.json``."""


def read_evaluations(folders: Sequence[Path]) -> dict[str, Summary]:
    """The summaries of evaluations (``results/evaluate/<preset>``) by their run's fingerprint."""
    summaries = [read_json(folder / SUMMARY) for folder in folders]
    return {summary["fingerprint"]: summary for summary in summaries}


TEST_FRAMES = ("dataset", "split", "blur_dir", "scale", "sequences", "frames")
"""Entries of a summary that say what its figures are of: those of other frames do not compare."""


def test_frames(summary: Summary) -> dict[str, Any]:
    """What the figures of an evaluation are of, by :data:`TEST_FRAMES`."""
    return {name: summary.get(name) for name in TEST_FRAMES}


def frames_note(evaluations: Mapping[str, Summary | None]) -> str:
    """A warning where runs were not evaluated on the same frames; empty where they were.

    Args:
        evaluations: by the name of the run.
    """
    known = {name: test_frames(e) for name, e in evaluations.items() if e is not None}
    differing = [key for key in TEST_FRAMES if len({str(of[key]) for of in known.values()}) > 1]
    if not differing:
        return ""
    each = (
        f"{name}: {', '.join(f'{key} {of[key]}' for key in differing)}"
        for name, of in known.items()
    )
    return (
        "The runs were evaluated on different frames, so that their metrics do not compare ("
        f"{'; '.join(each)})."
    )


def measured_metrics(summaries: Iterable[Summary]) -> list[Metric]:
    """The metrics that any of some evaluations has measured, in the order of their table."""
    found: dict[str, Metric] = {}
    for summary in summaries:
        known = metrics_of_task(summary)
        found |= {name: metric for name, metric in known.items() if name in summary["metrics"]}
    return list(found.values())


def metrics_of_task(summary: Summary) -> Mapping[str, Metric]:
    """The metrics of the problem that an evaluation is of."""
    return find_problem(summary.get("task", DEFAULT)).METRICS


def quality(summary: Summary | None, metrics: Iterable[Metric]) -> dict[str, float | None]:
    """Columns of a table such as ``psnr gain``: each metric with its kinds.

    Args:
        summary: of the evaluation; without one, or where it has no finite figure, None.
        metrics: which ones.
    """
    found: Mapping[str, Any] = {} if summary is None else summary["metrics"]
    return {
        f"{metric.name} {kind}": found.get(metric.name, {}).get(kind)
        for metric in metrics
        for kind in metric.kinds
    }


def quality_formats(metrics: Iterable[Metric]) -> dict[str, str]:
    """Format specifications of the columns that :func:`quality` gives; a gain has its sign."""
    return {
        f"{metric.name} {kind}": f"+{metric.format}" if kind == "gain" else metric.format
        for metric in metrics
        for kind in metric.kinds
    }


def quality_note(metrics: Iterable[Metric]) -> str:
    """What readers of a table of these metrics must know, in sentences."""
    known = list(metrics)
    if not known:
        return ""
    names = ", ".join(f"{m.name} ({m.unit})" if m.unit else m.name for m in known)
    note = f"Means over the test sequences: {names}. A gain above 0 is better"
    lower = [metric.name for metric in known if not metric.larger_is_better]
    return f"{note}, also of {', '.join(lower)}, where lower is better." if lower else f"{note}."
