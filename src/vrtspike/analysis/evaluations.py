"""Evaluations of runs, and their figures as columns of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluation_files import Summary, find_evaluation
from vrtspike.config.problems import Metric, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.io.flatten import unequal
from vrtspike.runs.identity import result_settings
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.system.errors import RunError


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


TEST_FRAMES = ("protocol", "dataset", "split", "blur_dir", "sequences", "frames")
"""Entries of a summary on its test frames; figures of different frames cannot be compared."""


def test_frames(summary: Summary) -> dict[str, Any]:
    """The entries :data:`TEST_FRAMES` of a summary."""
    return {name: summary.get(name) for name in TEST_FRAMES} | {
        "protocol": next(iter(protocols(summary)))
    }


def frames_note(evaluations: Mapping[str, Summary | None]) -> str:
    """Warnings of evaluations, and a warning if the runs have different test frames.

    Frames of one name and number may differ where the data sets do; the number of bins alone
    changes a data set, but no frame.

    Args:
        evaluations: by the name of the run.
    """
    found = {name: e for name, e in evaluations.items() if e is not None}
    warned: dict[str, list[str]] = {}
    for name, e in found.items():
        for warning in e.get("warnings", ()):
            warned.setdefault(warning, []).append(name)
    notes = [f"{', '.join(names)}: {warning}." for warning, names in warned.items()]
    frames = pd.DataFrame({name: test_frames(e) for name, e in found.items()}).T.astype(str)
    differing = frames.loc[:, frames.nunique() > 1]
    if len(differing.columns):
        each = (
            f"{name}: {', '.join(f'{key} {value}' for key, value in row.items())}"
            for name, row in differing.iterrows()
        )
        notes.append(
            "The runs were evaluated on different frames, their metrics cannot be compared ("
            f"{'; '.join(each)})."
        )
    columns = ["dataset", "bins", "dataset_digest"]
    data = pd.DataFrame([*found.values()], columns=columns).groupby(columns[:2], dropna=False)
    if (data["dataset_digest"].nunique() > 1).any():
        notes.append(
            "Data sets of one name differ in contents (dataset_digest): so may the frames."
        )
    return " ".join(notes)


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


def quality_table(groups: Sequence[Sequence[Summary]]) -> tuple[pd.DataFrame, Measured]:
    """The figures of evaluations, and their metrics.

    Args:
        groups: one for each row; several evaluations are those of a preset's seeds.

    Returns:
        columns such as ``psnr gain``: each metric with its kinds and standard error, means over
        seeds; ``psnr spread`` if there are several seeds; ``note`` with warnings of the
        evaluations, if there are any. Not a number if a seed has no finite figure.
    """
    metrics = measured_metrics(summary for group in groups for summary in group)
    columns = [f"{name} {kind}" for name, metric in metrics.items() for kind in _kinds(metric)]
    results = {f"{name} {metric.after}": f"{name} {SPREAD}" for name, metric in metrics.items()}
    rows = []
    for group in groups:
        figures = pd.DataFrame(map(_cells, group), columns=columns, dtype="float64")
        spread = figures[list(results)].std(skipna=False).rename(results)
        warnings = [text for summary in group for text in summary.get("warnings", ())]
        note = "; ".join(dict.fromkeys(warnings))
        rows.append({**figures.mean(skipna=False), **spread, "note": note})
    table = pd.DataFrame(rows)
    if all(len(group) < 2 for group in groups):
        table = table.drop(columns=list(results.values()))
    return table if table["note"].any() else table.drop(columns="note"), metrics


def _cells(summary: Summary) -> dict[str, float | None]:
    """The figures of an evaluation by column."""
    return {
        f"{column_name(name, protocol)} {kind}": figures["metrics"].get(name, {}).get(key)
        for protocol, figures in protocols(summary).items()
        for name, metric in metrics_of_task(summary).items()
        for kind, key in _kinds(metric).items()
    }


def _kinds(metric: Metric) -> dict[str, str]:
    """Ends of a metric's column names, and the summary's keys of their figures."""
    kinds = {kind: kind for kind in metric.kinds}
    return kinds | {STANDARD_ERROR: f"{metric.after}_error"}


STANDARD_ERROR = "standard error"
SPREAD = "spread"
"""The standard deviation of a metric over the trainings of one preset that differ in their seed."""


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
    """Format specifications of the columns of :func:`quality_table`; a gain has its sign."""
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
