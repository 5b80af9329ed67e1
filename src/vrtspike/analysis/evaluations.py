"""Evaluations of runs, and their figures as columns of tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluation_files import Summary, find_evaluation
from vrtspike.config.problems import Metric, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.errors import RunError
from vrtspike.io.flatten import unequal
from vrtspike.runs.identity import result_settings
from vrtspike.runs.published import PublishedRun, read_published


def require_names(names: Sequence[str]) -> None:
    """Refuse runs with equal names.

    Raises:
        RunError: if two have one name.
    """
    if len(set(names)) < len(names):
        raise RunError(f"runs to compare need different names, found: {', '.join(names)}")


@dataclass(frozen=True)
class Evaluated:
    """A run and its evaluation."""

    run: PublishedRun
    summary: Summary


def read_evaluated(folders: Sequence[Path]) -> list[Evaluated]:
    """Runs and their evaluations.

    Args:
        folders: result folders of the runs, in order.

    Raises:
        RunError: if a folder holds no run, one was not evaluated, or two have one name.
    """
    found = []
    for folder in folders:
        run = read_published(folder)
        if (summary := find_evaluation(folder, run)) is None:
            raise RunError(
                f"run {run.name} ({run.fingerprint}): found no evaluation beside {folder}; "
                f"evaluate it: snakemake results/evaluate/{run.name}/summary.json"
            )
        found.append(Evaluated(run, summary))
    require_names([each.run.name for each in found])
    return found


TEST_FRAMES = ("protocol", "dataset", "split", "blur_dir", "scale", "sequences", "frames")
"""Entries of a summary on its test frames; figures of different frames cannot be compared."""


def test_frames(summary: Summary) -> dict[str, Any]:
    """The entries :data:`TEST_FRAMES` of a summary."""
    return {name: summary.get(name) for name in TEST_FRAMES} | {
        "protocol": next(iter(protocols(summary)))
    }


def frames_note(evaluations: Mapping[str, Summary | None]) -> str:
    """Warnings of evaluations, and a warning if the runs have different test frames.

    Args:
        evaluations: by the name of the run.
    """
    found = {name: e for name, e in evaluations.items() if e is not None}
    warned: dict[str, list[str]] = {}
    for name, e in found.items():
        for warning in e.get("warnings", ()):
            warned.setdefault(warning, []).append(name)
    notes = [f"{', '.join(names)}: {warning}." for warning, names in warned.items()]
    known = {name: test_frames(e) for name, e in found.items()}
    differing = [key for key in TEST_FRAMES if len({str(of[key]) for of in known.values()}) > 1]
    if differing:
        each = (
            f"{name}: {', '.join(f'{key} {of[key]}' for key in differing)}"
            for name, of in known.items()
        )
        notes.append(
            "The runs were evaluated on different frames, their metrics cannot be compared ("
            f"{'; '.join(each)})."
        )
    return " ".join(notes)


def with_notes(
    table: pd.DataFrame, evaluations: Iterable[Iterable[Summary | None]]
) -> pd.DataFrame:
    """The table with a column ``note`` with warnings of the evaluations, if there are any.

    Args:
        table: the figures.
        evaluations: those of each row.
    """
    notes = []
    for row in evaluations:
        warnings = [text for e in row if e is not None for text in e.get("warnings", ())]
        notes.append("; ".join(dict.fromkeys(warnings)))
    return table.assign(note=notes) if any(notes) else table


OWN_PROTOCOL = "own"
"""The default protocol, which columns do not name."""

Measured = Mapping[str, Metric]
"""The metrics of evaluations by name of their columns: ``psnr``, ``psnr (vrt)``."""


def protocols(summary: Summary) -> dict[str, Summary]:
    """The figures of an evaluation by protocol, the main one first."""
    return {summary.get("protocol", OWN_PROTOCOL): summary, **summary.get("other_protocols", {})}


def column_name(metric: str, protocol: str) -> str:
    """The name of a metric's columns; it includes a protocol other than the default.

    >>> column_name("psnr", "own"), column_name("psnr", "vrt")
    ('psnr', 'psnr (vrt)')
    """
    return metric if protocol == OWN_PROTOCOL else f"{metric} ({protocol})"


def measured_metrics(summaries: Iterable[Summary]) -> Measured:
    """The metrics of all these evaluations, in the order of the problem's table."""
    found: dict[str, Metric] = {}
    for summary in summaries:
        for protocol, figures in protocols(summary).items():
            for name, metric in metrics_of_task(summary).items():
                if name in figures["metrics"]:
                    found[column_name(name, protocol)] = metric
    return found


def metrics_of_task(summary: Summary) -> Mapping[str, Metric]:
    """The metrics of an evaluation's problem."""
    return find_problem(summary.get("task", DEFAULT_TASK)).METRICS


def quality(summary: Summary | None, metrics: Measured) -> dict[str, float | None]:
    """Columns of a table such as ``psnr gain``: each metric with its kinds and standard error.

    Args:
        summary: of the evaluation; without one all figures are None.
        metrics: of the columns.
    """
    found = {
        column_name(name, protocol): means
        for protocol, figures in protocols(summary or {"metrics": {}}).items()
        for name, means in figures["metrics"].items()
    }
    return {
        f"{name} {kind}": found.get(name, {}).get(key)
        for name, metric in metrics.items()
        for kind, key in _kinds(metric).items()
    }


def _kinds(metric: Metric) -> dict[str, str]:
    """Ends of a metric's column names, and the summary's keys of their figures."""
    kinds = {kind: kind for kind in metric.kinds}
    return kinds | {STANDARD_ERROR: f"{metric.after}_error"}


STANDARD_ERROR = "standard error"
SPREAD = "spread"
"""The standard deviation of a metric over the trainings of one preset that differ in their seed."""


def seeds_quality(
    summaries: Sequence[Summary | None], metrics: Measured
) -> dict[str, float | None]:
    """:func:`quality` of a preset: means over its seeds, with the spread of each metric.

    Args:
        summaries: of its evaluations, one for each seed.
        metrics: of the columns.

    Returns:
        the columns; None if a seed has no finite figure, and for the spread of a single seed.
    """
    table = pd.DataFrame([quality(summary, metrics) for summary in summaries], dtype="float64")
    mean, deviation = table.mean(skipna=False), table.std(skipna=False)
    spread = {f"{name} {SPREAD}": f"{name} {metric.after}" for name, metric in metrics.items()}
    found = mean.to_dict() | {name: deviation[column] for name, column in spread.items()}
    return {str(name): None if math.isnan(value) else value for name, value in found.items()}


def require_equal(
    run: PublishedRun, reference: PublishedRun, expected: RunSettings, differing: str
) -> None:
    """Refuse a run with other data or settings than expected.

    Args:
        run: the run.
        reference: the run that it is compared with.
        expected: its expected settings.
        differing: the permitted difference, for the message.

    Raises:
        RunError: naming both and the key.
    """
    found, wanted = (
        result_settings(settings) | {"data set": each.dataset_digest}
        for each, settings in ((run, run.settings), (reference, expected))
    )
    for key, (value, other) in unequal(found, wanted).items():
        raise RunError(
            f"run {run.name}: {key} is {value}, expected {other}: it may differ from run "
            f"{reference.name} only in {differing}; train both again"
        )


def require_seeds(runs: Sequence[PublishedRun]) -> None:
    """Refuse runs that differ in more than their seed.

    Raises:
        RunError: naming two of them and the key.
    """
    first, *others = runs
    for run in others:
        expected = first.settings.model_copy(update={"SEED": run.settings.SEED})
        require_equal(run, first, expected, "its seed")


def quality_formats(metrics: Measured) -> dict[str, str]:
    """Format specifications of the columns that :func:`quality` gives; a gain has its sign."""
    return {
        f"{name} {kind}": f"+{metric.format}" if kind == "gain" else metric.format
        for name, metric in metrics.items()
        for kind in (*_kinds(metric), SPREAD)
    }


def quality_note(metrics: Measured) -> str:
    """Explanation of a table of these metrics."""
    if not metrics:
        return ""
    names = ", ".join(f"{name} ({m.unit})" if m.unit else name for name, m in metrics.items())
    note = f"Means over the test set: {names}. A gain above 0 is better"
    lower = [name for name, metric in metrics.items() if not metric.larger_is_better]
    note = f"{note}, also of {', '.join(lower)}, where lower is better." if lower else f"{note}."
    return f"{note} The standard error is over sequences."
