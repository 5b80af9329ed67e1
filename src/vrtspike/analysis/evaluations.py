"""The evaluations of runs: which belongs to which run, and their figures for tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluation_files import SUMMARY, read_summary
from vrtspike.config.problems import Metric, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.errors import RunError
from vrtspike.io.flatten import unequal
from vrtspike.runs.identity import result_settings
from vrtspike.runs.published import PublishedRun, read_published

Summary = Mapping[str, Any]
"""The contents of an evaluation's ``summary.json``."""


def require_names(runs: Sequence[PublishedRun]) -> None:
    """Refuse runs that a table could not tell apart.

    Raises:
        RunError: if two have one name.
    """
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise RunError(f"runs to compare need different names, found: {', '.join(names)}")


def find_evaluation(folder: Path, run: PublishedRun) -> Summary | None:
    """The evaluation of a run, ``<results>/evaluate/<preset>``; None where it has none.

    Args:
        folder: the run's result folder, ``<results>/train/<preset>``.
        run: who it is; an evaluation of another run is none of it.

    Raises:
        RunError: if the summary is damaged, or was changed after the evaluation.
    """
    path = folder.absolute().parent.parent / "evaluate" / folder.absolute().name / SUMMARY
    if not path.is_file():
        return None
    summary = read_summary(path)
    return summary if summary["fingerprint"] == run.fingerprint else None


def read_evaluated(folders: Sequence[Path]) -> tuple[list[PublishedRun], dict[str, Summary]]:
    """Runs in the order of their result folders, and their evaluations by name.

    Raises:
        RunError: if a folder holds no run, one was not evaluated, or two have one name.
    """
    runs = [read_published(folder) for folder in folders]
    require_names(runs)
    evaluations = {}
    for run, folder in zip(runs, folders, strict=True):
        if (found := find_evaluation(folder, run)) is None:
            raise RunError(
                f"run {run.name} ({run.fingerprint}): no evaluation of it beside {folder}; "
                f"evaluate it, such as by snakemake results/evaluate/{run.name}/summary.json"
            )
        evaluations[run.name] = found
    return runs, evaluations


TEST_FRAMES = ("protocol", "dataset", "split", "blur_dir", "scale", "sequences", "frames")
"""Entries of a summary that say what its figures are of: those of other frames do not compare."""


def test_frames(summary: Summary) -> dict[str, Any]:
    """What the figures of an evaluation are of, by :data:`TEST_FRAMES`."""
    return {name: summary.get(name) for name in TEST_FRAMES} | {
        "protocol": next(iter(protocols(summary)))
    }


def frames_note(evaluations: Mapping[str, Summary | None]) -> str:
    """Warnings: of single runs, and where runs were not evaluated on the same frames.

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
            "The runs were evaluated on different frames, so that their metrics do not compare ("
            f"{'; '.join(each)})."
        )
    return " ".join(notes)


def with_notes(
    table: pd.DataFrame, evaluations: Iterable[Iterable[Summary | None]]
) -> pd.DataFrame:
    """The table with what warns of its figures as a column ``note``, if anything does.

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
"""The protocol that columns do not name; evaluations of problems without protocols have none."""

Measured = Mapping[str, Metric]
"""The metrics of some evaluations by what columns call them: ``psnr``, ``psnr (vrt)``."""


def protocols(summary: Summary) -> dict[str, Summary]:
    """The figures of an evaluation by protocol, the main one first."""
    return {summary.get("protocol", OWN_PROTOCOL): summary, **summary.get("other_protocols", {})}


def column_name(metric: str, protocol: str) -> str:
    """What the columns of a metric are called: figures of two protocols share none.

    >>> column_name("psnr", "own"), column_name("psnr", "vrt")
    ('psnr', 'psnr (vrt)')
    """
    return metric if protocol == OWN_PROTOCOL else f"{metric} ({protocol})"


def measured_metrics(summaries: Iterable[Summary]) -> Measured:
    """The metrics that any of some evaluations has measured, in the order of their table."""
    found: dict[str, Metric] = {}
    for summary in summaries:
        for protocol, figures in protocols(summary).items():
            for name, metric in metrics_of_task(summary).items():
                if name in figures["metrics"]:
                    found[column_name(name, protocol)] = metric
    return found


def metrics_of_task(summary: Summary) -> Mapping[str, Metric]:
    """The metrics of the problem that an evaluation is of."""
    return find_problem(summary.get("task", DEFAULT_TASK)).METRICS


def quality(summary: Summary | None, metrics: Measured) -> dict[str, float | None]:
    """Columns of a table such as ``psnr gain``: each metric with its kinds and standard error.

    Args:
        summary: of the evaluation; without one, or where it has no finite figure, None.
        metrics: which ones.
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
    """What columns of a metric say, and the key of a summary that has it."""
    kinds = {kind: kind for kind in metric.kinds}
    return kinds | {STANDARD_ERROR: f"{metric.after}_error"}


STANDARD_ERROR = "standard error"
SPREAD = "spread"
"""The standard deviation of a metric over the trainings of one preset that differ in their seed."""


def seeds_quality(
    summaries: Sequence[Summary | None], metrics: Measured
) -> dict[str, float | None]:
    """:func:`quality` of a preset: means over its seeds, and beside each metric their spread.

    Args:
        summaries: of its evaluations, one for each seed.
        metrics: which ones.

    Returns:
        None where a seed has no finite figure; the spread of a single seed is None as well.
    """
    rows = [quality(summary, metrics) for summary in summaries]
    found = {name: _over_seeds([row[name] for row in rows], statistics.fmean) for name in rows[0]}
    for name, metric in metrics.items():
        values = [row[f"{name} {metric.after}"] for row in rows]
        several = len(values) > 1
        found[f"{name} {SPREAD}"] = _over_seeds(values, statistics.stdev) if several else None
    return found


def _over_seeds(
    values: Sequence[float | None], what: Callable[[Sequence[float]], float]
) -> float | None:
    known = [value for value in values if value is not None]
    return what(known) if len(known) == len(values) else None


def require_equal(
    run: PublishedRun, reference: PublishedRun, expected: RunSettings, differing: str
) -> None:
    """Refuse a run of other data or settings than those expected.

    Args:
        run: which one.
        reference: the run that it is compared with.
        expected: settings that it should have.
        differing: what it may differ in from the other, in words.

    Raises:
        RunError: naming both and the key.
    """
    found, wanted = (
        result_settings(settings) | {"data set": each.dataset_digest}
        for each, settings in ((run, run.settings), (reference, expected))
    )
    for key, (value, other) in unequal(found, wanted).items():
        raise RunError(
            f"run {run.name} has {key} {value}, expected {other}, for it shall differ from run "
            f"{reference.name} in {differing} only; train both again"
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
    """What readers of a table of these metrics must know, in sentences."""
    if not metrics:
        return ""
    names = ", ".join(f"{name} ({m.unit})" if m.unit else name for name, m in metrics.items())
    note = f"Means over the test set: {names}. A gain above 0 is better"
    lower = [name for name, metric in metrics.items() if not metric.larger_is_better]
    note = f"{note}, also of {', '.join(lower)}, where lower is better." if lower else f"{note}."
    return f"{note} The standard error is over sequences."
