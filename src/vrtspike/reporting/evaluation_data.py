"""The evaluation of a run for the report page: metrics, sequences, frames, examples."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.comparisons.quality_tables import (
    column_name,
    content_entries,
    frame_entries,
    metrics_of_task,
    task_of,
)
from vrtspike.analysis.evaluation_files import (
    EXAMPLES,
    EXAMPLES_INDEX,
    FRAMES,
    SEQUENCES,
    SUMMARY,
    EvaluationSummary,
    evaluation_folder,
    find_evaluation,
)
from vrtspike.analysis.intervals import METHOD, interval_of_mean
from vrtspike.config.tasks import DEFAULT_PROTOCOL, Metric
from vrtspike.io.files import read_mapping
from vrtspike.reporting.page_data import (
    EvaluationOnPage,
    Example,
    MetricMeans,
    NotEvaluated,
    TableRow,
)
from vrtspike.reporting.task_report import TaskReport, task_report
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError
from vrtspike.system.rounding import ceil_div

_ADVICE = "evaluate again"
REQUIRED = ("dataset", "split", "frames", "sequences", "metrics")
"""Keys that a summary must have."""
MAX_FRAMES = 3000
"""Maximum number of points of the plot of all frames; of more frames every n-th is drawn."""


def read_evaluation(folder: Path, run: PublishedRun) -> EvaluationOnPage | NotEvaluated:
    """Read the evaluation of a run, or the reason why there is none.

    Args:
        folder: ``results/train/<preset>``; the evaluation is in ``results/evaluate/<preset>``.
        run: the run; an evaluation of another run is ignored.

    Returns:
        the evaluation, without its videos and without the pictures of its examples.

    Raises:
        RunError: if a file is damaged or missing, or the summary was changed after the evaluation.
    """
    summary = find_evaluation(folder, run)
    if summary is None:
        return {"reason": f"not evaluated: no {SUMMARY} of run {run.fingerprint}; {_ADVICE}"}
    folder = evaluation_folder(folder)
    _require_keys(summary, folder)
    report = task_report(task_of(summary))
    frame_facts = frame_entries(summary)
    protocol = frame_facts["protocol"]
    frames = _rows_of_protocol(read_table(folder / FRAMES, _ADVICE), protocol)
    sequences = _rows_of_protocol(read_table(folder / SEQUENCES, _ADVICE), protocol)
    metrics = _metrics(report, summary, protocol, sequences)
    sequence_rows = json_rows(sequences)
    step = max(1, ceil_div(len(frames), MAX_FRAMES))
    examples = read_examples(folder / EXAMPLES) if report.examples else NO_EXAMPLES
    return {
        "dataset": summary["dataset"],
        "split": summary["split"],
        "frames": summary["frames"],
        "sequences": summary["sequences"],
        "mean_over": "frames" if summary.get("mean_over") == "frames" else "sequences",
        "test_frames": frame_facts,
        "contents": content_entries(summary),
        "frames_text": _frames_text(summary, protocol, report.frames_detail(summary)),
        "model_seconds_per_frame": summary.get("model_seconds_per_frame"),
        "metrics": metrics,
        "interval_method": METHOD if any(metric["gain_interval"] for metric in metrics) else "",
        "warnings": summary.get("warnings", []),
        "notes": report.notes(summary),
        "remark": report.remark(metrics, sequence_rows),
        "sequence_rows": sequence_rows,
        "frame_rows": _frame_rows(frames.iloc[::step], metrics),
        "frame_step": step,
        "worst": _worst_frames(summary),
        "choice": examples["choice"],
        "examples": [_example(entry) for entry in examples["examples"]],
        "videos": [],
        "figures": [
            {"caption": figure["caption"], "data": in_base64(folder / figure["file"])}
            for figure in summary.get("figures") or ()
        ],
    }


def _require_keys(summary: EvaluationSummary, folder: Path) -> None:
    """Require the keys that every task writes."""
    missing = [name for name in REQUIRED if name not in summary]
    if missing:
        raise RunError(
            f"{folder / SUMMARY}: keys {', '.join(missing)} are missing; {_ADVICE}, or have the "
            "task write what docs/extending.md lists"
        )


def _frame_rows(frames: pd.DataFrame, metrics: Sequence[MetricMeans]) -> list[list[Any]]:
    """Return sequence, name and metrics of frames, for the plot of all frames."""
    columns = [column for metric in metrics for column in metric["columns"]]
    drawn = frames.reindex(columns=["sequence", "frame", *columns])
    return [[*row.values()] for row in json_rows(drawn)]


def _frames_text(summary: EvaluationSummary, protocol: str, detail: str) -> str:
    """Return the test frames of an evaluation in words.

    Args:
        summary: contents of ``summary.json``.
        protocol: name of the evaluation's first protocol.
        detail: further words of the task.
    """
    sequences = "sequence" if summary["sequences"] == 1 else "sequences"
    of_protocol = "" if protocol == DEFAULT_PROTOCOL else f", protocol {protocol}"
    return (
        f"{summary['frames']} frames of {summary['sequences']} {sequences} in "
        f"{summary['dataset']}/{summary['split']}{detail}{of_protocol}"
    )


def _metrics(
    report: TaskReport, summary: EvaluationSummary, protocol: str, sequences: pd.DataFrame
) -> list[MetricMeans]:
    """Return the metrics of an evaluation, first the one that ranks its frames."""
    worst = summary.get("worst") or ()
    ranking = worst[0] if worst else {}
    metrics = metrics_of_task(summary)
    measured = [name for name in metrics if name in summary["metrics"]]
    first = [name for name in measured if name in ranking]
    others = [name for name in measured if name not in ranking]
    return [
        _metric(report, metrics[name], summary, protocol, sequences) for name in [*first, *others]
    ]


def _metric(
    report: TaskReport,
    metric: Metric,
    summary: EvaluationSummary,
    protocol: str,
    sequences: pd.DataFrame,
) -> MetricMeans:
    """Return a metric with its means: None, with the reason, for one that is not finite."""
    means = summary["metrics"][metric.name]
    return {
        # Names contain the protocol, because the page compares metrics of one name.
        "name": column_name(metric.name, protocol),
        "title": column_name(metric.title, protocol),
        "definition": summary.get("definitions", {}).get(metric.name, ""),
        "unit": metric.unit,
        "decimals": metric.decimals,
        "larger_is_better": metric.larger_is_better,
        "before": metric.reference_name,
        "after": metric.result_name,
        "columns": metric.columns,
        "reference": means.get(metric.reference_name),
        "result": means.get(metric.result_name),
        "gain": means.get("gain"),
        "gain_interval": _gain_interval(metric, summary, sequences),
        "extra": report.extra_reference(metric, summary),
        "reason": means.get("reason", ""),
    }


def _gain_interval(
    metric: Metric, summary: EvaluationSummary, sequences: pd.DataFrame
) -> tuple[float, float] | None:
    """Compute the interval of a metric's gain from the means of the sequences.

    None if there are too few sequences, or the gain is not finite or not a mean over independent
    sequences (``mean_over``).
    """
    before, after = metric.columns
    gain = summary["metrics"][metric.name].get("gain")
    if gain is None or "mean_over" not in summary or not {before, after} <= set(sequences):
        return None
    rows = sequences.dropna(subset=[before, after])
    gains = [
        metric.gain(value, reference)
        for value, reference in zip(rows[after], rows[before], strict=True)
    ]
    by_frames = summary["mean_over"] == "frames"
    weights = rows["frames"].tolist() if by_frames else [1.0] * len(rows)
    return interval_of_mean(gains, weights)


def _worst_frames(summary: EvaluationSummary) -> list[tuple[str, str, float]]:
    """Return the sequence, name and value of the worst frames."""
    rows = []
    for frame in summary.get("worst") or ():
        for name in frame.keys() - {"sequence", "frame"}:
            rows.append((frame["sequence"], frame["frame"], frame[name]))
    return rows


def in_base64(path: Path) -> str:
    """Read the contents of a file in base64, for a link in a page."""
    return base64.b64encode(path.read_bytes()).decode()


def read_table(path: Path, advice: str) -> pd.DataFrame:
    """Read a CSV table; names are texts, and only empty cells are missing values.

    Raises:
        RunError: if it is missing, with the advice.
    """
    if not path.is_file():
        raise RunError(f"{path}: no such file, which this stage writes; {advice}")
    names = dict.fromkeys(("split", "sequence", "frame"), str)
    return pd.read_csv(path, dtype=names, keep_default_na=False, na_values=[""])


def _rows_of_protocol(table: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """Return the rows of a protocol, without the columns that it leaves empty."""
    if "protocol" not in table:
        return table
    return table[table["protocol"] == protocol].dropna(axis=1, how="all")


def json_rows(table: pd.DataFrame) -> list[TableRow]:
    """Convert rows to JSON values: numbers with six digits, None for numbers that are not finite.

    >>> json_rows(pd.DataFrame({"name": ["a", "b"], "rate": [1.23456789e-7, float("inf")]}))
    [{'name': 'a', 'rate': 1.23457e-07}, {'name': 'b', 'rate': None}]
    """
    short = table.map(lambda value: float(f"{value:.6g}") if isinstance(value, float) else value)
    rows: list[TableRow] = json.loads(short.to_json(orient="records", double_precision=15))
    return rows


NO_EXAMPLES: Mapping[str, Any] = {"choice": "", "examples": []}


def read_examples(folder: Path) -> Mapping[str, Any]:
    """Read the index of the example frames of an evaluation; :data:`NO_EXAMPLES` without one.

    Args:
        folder: folder of the examples.

    Returns:
        ``choice``, the choice of the frames in words, and ``examples``, an entry for each of them,
        the worst first.

    Raises:
        RunError: if the index is damaged.
    """
    path = folder / EXAMPLES_INDEX
    if not path.is_file():
        return NO_EXAMPLES
    index = read_mapping(path, _ADVICE)
    missing = [name for name in NO_EXAMPLES if name not in index]
    if missing:
        raise RunError(f"{path}: {', '.join(missing)} missing; {_ADVICE}")
    return index


def _example(entry: Mapping[str, Any]) -> Example:
    """Return an entry of the index of examples, without pictures."""
    return {
        "label": entry["label"],
        "sequence": entry["sequence"],
        "frame": entry["frame"],
        "chosen": entry["chosen"],
        "metrics": entry["metrics"],
        "pictures": {},
    }
