"""Evaluations of runs, and their values as columns of tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluation_files import EvaluationSummary, ProtocolResults, find_evaluation
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.tasks import DEFAULT_PROTOCOL, FrameKeys, Metric, find_task, has_part
from vrtspike.io.flatten import differing_values
from vrtspike.plotting.pages import NOTE, note_lines
from vrtspike.runs.identity import result_settings
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.system.errors import RunError

STANDARD_ERROR = "standard error"
DIGEST = "dataset_digest"
"""Key of summaries: digest of the contents of the data set."""
SPREAD = "spread"
"""Standard deviation of a metric over the trainings of a preset with different seeds."""


def require_distinct_names(names: Sequence[str]) -> None:
    """Reject runs with equal names.

    Raises:
        RunError: if two have one name.
    """
    if len(set(names)) < len(names):
        raise RunError(f"runs to compare need different names, found: {', '.join(names)}")


@dataclass(frozen=True)
class EvaluatedRun:
    """A run and its evaluation.

    Attributes:
        run: record of the training.
        summary: contents of its ``summary.json``.
    """

    run: PublishedRun
    summary: EvaluationSummary


def find_evaluated(folder: Path) -> EvaluatedRun | None:
    """Read a run and its evaluation; None if it was not evaluated.

    Args:
        folder: result folder of the run, ``<results>/train/<preset>``.

    Raises:
        RunError: if the folder holds no run, or the evaluation is damaged.
    """
    run = read_published(folder)
    summary = find_evaluation(folder, run)
    return None if summary is None else EvaluatedRun(run, summary)


def read_evaluated(folders: Sequence[Path]) -> list[EvaluatedRun]:
    """Read runs and their evaluations.

    Args:
        folders: result folders of the runs, in order.

    Raises:
        RunError: if a folder holds no run, one was not evaluated, or two have one name.
    """
    members = []
    for folder in folders:
        member = find_evaluated(folder)
        if member is None:
            run = read_published(folder)
            raise RunError(
                f"run {run.name} ({run.fingerprint}): found no evaluation beside {folder}; "
                f"evaluate it: snakemake --cores all results/evaluate/{run.name}/summary.json"
            )
        members.append(member)
    require_distinct_names([member.run.name for member in members])
    return members


def frame_entry_keys(summaries: Iterable[EvaluationSummary]) -> list[str]:
    """Return the keys of summaries on their test frames.

    Values of different frames cannot be compared.

    Args:
        summaries: evaluations, also of different tasks.

    >>> frame_entry_keys([{"task": "sst"}])
    ['protocol', 'dataset', 'split', 'sequences', 'frames']
    """
    keys = ["protocol", "dataset", "split"]
    for task in _tasks(summaries):
        keys += _frame_keys(task).variants
    return [*dict.fromkeys(keys), "sequences", "frames"]


def _tasks(summaries: Iterable[EvaluationSummary]) -> list[str]:
    """Return the names of the tasks of evaluations, each once."""
    return list(dict.fromkeys(task_of(summary) for summary in summaries))


def _frame_keys(task_name: str) -> FrameKeys:
    """Return the keys that tell variants of a task's test frames apart; none without variants."""
    task = find_task(task_name)
    return task.FRAME_KEYS if has_part(task, "FRAME_KEYS") else FrameKeys()


def task_of(summary: EvaluationSummary) -> str:
    """Return the name of the task of an evaluation."""
    return str(summary.get("task", DEFAULT_TASK))


def frame_entries(summary: EvaluationSummary, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return the entries of a summary on its test frames.

    Args:
        summary: contents of ``summary.json``.
        keys: names of the entries; empty for those of its task.
    """
    entries = {name: summary.get(name) for name in keys or frame_entry_keys([summary])}
    entries["protocol"] = next(iter(protocols(summary)))
    return entries


def content_entries(summary: EvaluationSummary) -> dict[str, Any]:
    """Return the entries of a summary on the contents of its data set: encodings and digest."""
    keys = [*_frame_keys(task_of(summary)).encodings, DIGEST]
    return {key: summary.get(key) for key in keys}


def have_other_contents(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether data sets of one name are known to differ in contents.

    Digests of different encodings of the same frames differ, and are not compared.

    Args:
        first: entries from :func:`content_entries`.
        second: the same of another evaluation; also empty.

    >>> have_other_contents({"bins": 4, DIGEST: "a"}, {"bins": 4, DIGEST: "b"})
    True
    >>> have_other_contents({"bins": 4, DIGEST: "a"}, {"bins": 8, DIGEST: "b"})
    False
    """
    differing = {key for key, value in first.items() if value != second.get(key)}
    return differing == {DIGEST} and None not in (first[DIGEST], second.get(DIGEST))


def frames_note(evaluations: Mapping[str, EvaluationSummary | None]) -> str:
    """Return the warnings of evaluations, and a warning if the runs have different test frames.

    Args:
        evaluations: summaries by the name of the run; None is ignored.
    """
    summaries = {name: summary for name, summary in evaluations.items() if summary is not None}
    warnings = [
        (name, warning)
        for name, summary in summaries.items()
        for warning in summary.get("warnings", ())
    ]
    notes = note_lines(pd.DataFrame(warnings, columns=["run", NOTE]))
    notes += [_different_frames_note(summaries), _different_contents_note(summaries)]
    return " ".join(note for note in notes if note)


def _different_frames_note(summaries: Mapping[str, EvaluationSummary]) -> str:
    """Return a note on runs that were evaluated on different frames; empty without them."""
    keys = frame_entry_keys(summaries.values())
    frames = pd.DataFrame(
        {name: frame_entries(summary, keys) for name, summary in summaries.items()}
    )
    frames = frames.T.astype(str)
    differing = frames.loc[:, frames.nunique() > 1]
    if not len(differing.columns):
        return ""
    runs = []
    for name, row in differing.iterrows():
        entries = ", ".join(f"{key} {value}" for key, value in row.items())
        runs.append(f"{name}: {entries}")
    return (
        "The runs were evaluated on different frames, their metrics cannot be compared ("
        f"{'; '.join(runs)})."
    )


def _different_contents_note(summaries: Mapping[str, EvaluationSummary]) -> str:
    """Return a note on data sets of one name with different contents; empty without them.

    Frames of the same name and number may then differ.
    """
    names = ["dataset"]
    for task in _tasks(summaries.values()):
        names += _frame_keys(task).encodings
    names = list(dict.fromkeys(names))
    table = pd.DataFrame([*summaries.values()], columns=[*names, DIGEST])
    digests = table.groupby(names, dropna=False)[DIGEST].nunique()
    if not (digests > 1).any():
        return ""
    return "Data sets of one name differ in contents (dataset_digest): so may the frames."


MetricColumns = Mapping[str, Metric]
"""Metrics of evaluations by the names of their columns: ``psnr``, ``psnr (vrt)``."""


def protocols(summary: EvaluationSummary) -> dict[str, ProtocolResults]:
    """Return the values of an evaluation by protocol, the main one first."""
    main: dict[str, ProtocolResults] = {summary.get("protocol", DEFAULT_PROTOCOL): summary}
    return main | dict(summary.get("other_protocols", {}))


def column_name(metric: str, protocol: str) -> str:
    """Return the name of a metric's columns; it includes a protocol other than the default.

    >>> column_name("psnr", "own"), column_name("psnr", "vrt")
    ('psnr', 'psnr (vrt)')
    """
    return metric if protocol == DEFAULT_PROTOCOL else f"{metric} ({protocol})"


def measured_metrics(summaries: Iterable[EvaluationSummary]) -> MetricColumns:
    """Return the metrics of all evaluations, in the order of the task's table."""
    metrics: dict[str, Metric] = {}
    for summary in summaries:
        for protocol, values in protocols(summary).items():
            for name, metric in metrics_of_task(summary).items():
                if name in values["metrics"]:
                    metrics[column_name(name, protocol)] = metric
    return metrics


def metrics_of_task(summary: EvaluationSummary) -> Mapping[str, Metric]:
    """Return the metrics of an evaluation's task."""
    return find_task(task_of(summary)).METRICS


def quality_table(
    groups: Sequence[Sequence[EvaluationSummary]],
) -> tuple[pd.DataFrame, MetricColumns]:
    """Return the values of evaluations as a table, and their metrics.

    Args:
        groups: evaluations for each row; several are those of a preset's seeds.

    Returns:
        columns such as ``psnr gain``: each metric with its kinds, means over seeds, and their
        standard error over sequences, NaN for several seeds: it does not follow from theirs;
        ``psnr spread`` if there are several seeds; ``note`` with warnings of the evaluations, if
        there are any. The mean is NaN if a seed has no finite value.
    """
    metrics = measured_metrics(summary for group in groups for summary in group)
    columns = [f"{name} {kind}" for name, metric in metrics.items() for kind in _kinds(metric)]
    results = {
        f"{name} {metric.result_name}": f"{name} {SPREAD}" for name, metric in metrics.items()
    }
    rows = []
    for group in groups:
        values = pd.DataFrame(map(_cells, group), columns=columns, dtype="float64")
        if len(group) > 1:
            values[[f"{name} {STANDARD_ERROR}" for name in metrics]] = math.nan
        spread = values[list(results)].std(skipna=False).rename(results)
        warnings = [text for summary in group for text in summary.get("warnings", ())]
        note = "; ".join(dict.fromkeys(warnings))
        rows.append({**values.mean(skipna=False), **spread, "note": note})
    table = pd.DataFrame(rows)
    if all(len(group) < 2 for group in groups):
        table = table.drop(columns=list(results.values()))
    if not table["note"].any():
        table = table.drop(columns="note")
    return table, metrics


def _cells(summary: EvaluationSummary) -> dict[str, float | None]:
    """Return the values of an evaluation by column."""
    return {
        f"{column_name(name, protocol)} {kind}": values["metrics"].get(name, {}).get(key)
        for protocol, values in protocols(summary).items()
        for name, metric in metrics_of_task(summary).items()
        for kind, key in _kinds(metric).items()
    }


def _kinds(metric: Metric) -> dict[str, str]:
    """Return the ends of a metric's column names, and the summary's keys of their values."""
    kinds = {kind: kind for kind in metric.kinds}
    return kinds | {STANDARD_ERROR: f"{metric.result_name}_error"}


def require_equal(
    run: PublishedRun, reference: PublishedRun, expected: RunSettings, differing: str
) -> None:
    """Reject a run whose data or settings differ from the expected ones.

    Args:
        run: run to check.
        reference: the run that it is compared with.
        expected: expected settings of the run.
        differing: the permitted difference, for the message.

    Raises:
        RunError: naming both and the key.
    """
    actual_keys = result_settings(run.settings) | {"data set": run.dataset_digest}
    expected_keys = result_settings(expected) | {"data set": reference.dataset_digest}
    for key, (value, wanted) in differing_values(actual_keys, expected_keys).items():
        raise RunError(
            f"run {run.name}: {key} is {value}, expected {wanted}: it may differ from run "
            f"{reference.name} only in {differing}; train both again"
        )


def require_seeds(runs: Sequence[PublishedRun]) -> None:
    """Reject runs that differ in more than their seed.

    Raises:
        RunError: naming two of them and the key.
    """
    first, *others = runs
    for run in others:
        expected = first.settings.model_copy(update={"SEED": run.settings.SEED})
        require_equal(run, first, expected, "its seed")


def quality_formats(metrics: MetricColumns) -> dict[str, str]:
    """Return the formats of the columns of :func:`quality_table`; a gain has its sign."""
    formats = {}
    for name, metric in metrics.items():
        for kind in (*_kinds(metric), SPREAD):
            formats[f"{name} {kind}"] = f"+{metric.format}" if kind == "gain" else metric.format
    return formats


def quality_note(metrics: MetricColumns) -> str:
    """Return an explanation of a table of these metrics."""
    if not metrics:
        return ""
    names = [f"{name} ({metric.unit})" if metric.unit else name for name, metric in metrics.items()]
    lower = [name for name, metric in metrics.items() if not metric.larger_is_better]
    exceptions = f", also of {', '.join(lower)}, where lower is better" if lower else ""
    return (
        f"Means over the test set: {', '.join(names)}. A gain above 0 is better{exceptions}. The "
        "standard error is over sequences; means over seeds have none."
    )
