"""The evaluation of a run for the report page: figures, sequences, frames, examples, videos."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluation_files import (
    EXAMPLES,
    EXAMPLES_INDEX,
    FRAMES,
    SEQUENCES,
    SUMMARY,
    VIDEOS,
    evaluation_folder,
    find_evaluation,
)
from vrtspike.analysis.intervals import METHOD, interval_of_mean
from vrtspike.analysis.quality_tables import column_name, metrics_of_problem, test_frame_entries
from vrtspike.config.problems import Metric
from vrtspike.io.files import read_mapping
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

_ADVICE = "evaluate again"
REQUIRED = ("dataset", "split", "frames", "sequences", "metrics")
"""Keys that a summary must have."""
_METRIC_FIELDS = ("unit", "decimals", "larger_is_better", "before", "after", "columns")

MAX_FRAMES = 3000
"""Maximum number of points of the plot of all frames; of more frames every n-th is drawn."""


Contents = dict[str, Any]
"""Data for the page's JavaScript: JSON values and paths."""


def read_evaluation(folder: Path, run: PublishedRun) -> Contents:
    """Read the evaluation of a run, or the ``reason`` why there is none.

    Args:
        folder: ``results/train/<preset>``; the evaluation is in ``results/evaluate/<preset>``.
        run: the run; an evaluation of another run is ignored.

    Returns:
        entries of the summary on the test frames; ``metrics``, first the one that ranks frames and
        examples, then the others in the order of the problem; ``interval_method``, how the
        intervals of their gains were computed, empty without one;
        ``sequence_rows``, one per sequence; ``frame_rows``: sequence, frame, and both
        figures of each of the metrics, of every ``frame_step``-th frame; ``worst``: sequence,
        frame, figure; ``examples``, worst first, with the paths of their ``files`` by kind;
        ``videos`` with the path of their ``file``; ``figures`` in base64.

    Raises:
        RunError: if a file is damaged or missing, or the summary was changed after the evaluation.
    """
    summary = find_evaluation(folder, run)
    if summary is None:
        return {"reason": f"not evaluated: no {SUMMARY} of run {run.fingerprint}; {_ADVICE}"}
    folder = evaluation_folder(folder)
    missing = [name for name in REQUIRED if name not in summary]
    if missing:
        raise RunError(
            f"{folder / SUMMARY}: keys {', '.join(missing)} are missing; {_ADVICE}, or have the "
            "problem write what docs/extending.md lists"
        )
    frame_facts = test_frame_entries(summary)
    protocol = frame_facts["protocol"]
    frames = _rows_of_protocol(read_table(folder / FRAMES, _ADVICE), protocol)
    sequences = _rows_of_protocol(read_table(folder / SEQUENCES, _ADVICE), protocol)
    metrics = _metrics(summary, protocol, sequences)
    step = max(1, math.ceil(len(frames) / MAX_FRAMES))
    columns = [column for metric in metrics for column in metric["columns"]]
    drawn = frames.reindex(columns=["sequence", "frame", *columns]).iloc[::step]
    return {
        **frame_facts,
        "model_seconds_per_frame": summary.get("model_seconds_per_frame"),
        "metrics": metrics,
        "interval_method": METHOD if any(metric["gain_interval"] for metric in metrics) else "",
        "warnings": summary.get("warnings", []),
        "spikes_note": summary.get("spikes_alone_note", ""),
        "sequence_rows": records(sequences),
        "frame_rows": [[*row.values()] for row in records(drawn)],
        "frame_step": step,
        "worst": _worst(summary),
        **_examples(folder / EXAMPLES),
        "videos": [
            {"label": video.stem, "file": video}
            for video in sorted((folder / VIDEOS).glob("*.mp4"))
        ],
        "figures": [
            {"caption": figure["caption"], "data": in_base64(folder / figure["file"])}
            for figure in summary.get("figures") or ()
        ],
    }


def _metrics(summary: Mapping[str, Any], protocol: str, sequences: pd.DataFrame) -> list[Contents]:
    """Return the metrics of an evaluation, first the one that ranks its frames."""
    worst = summary.get("worst") or ()
    ranking = worst[0] if worst else {}
    items = metrics_of_problem(summary).items()
    ranked = sorted(items, key=lambda item: item[0] not in ranking)
    return [
        _metric(metric, summary, protocol)
        | {"gain_interval": _gain_interval(metric, summary, sequences)}
        for name, metric in ranked
        if name in summary["metrics"]
    ]


def _gain_interval(
    metric: Metric, summary: Mapping[str, Any], sequences: pd.DataFrame
) -> tuple[float, float] | None:
    """Compute the interval of a metric's gain from the means of the sequences.

    None for a gain that is no mean over independent sequences, which ``mean_over`` tells, or is not
    finite, and for too few sequences.
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


def _worst(summary: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """Return the sequence, name and figure of the worst frames."""
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


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Convert rows to JSON values: numbers with six digits, None for numbers that are not finite.

    >>> records(pd.DataFrame({"name": ["a", "b"], "rate": [1.23456789e-7, math.inf]}))
    [{'name': 'a', 'rate': 1.23457e-07}, {'name': 'b', 'rate': None}]
    """
    short = table.map(lambda value: float(f"{value:.6g}") if isinstance(value, float) else value)
    rows: list[dict[str, Any]] = json.loads(short.to_json(orient="records", double_precision=15))
    return rows


def _metric(metric: Metric, summary: Mapping[str, Any], protocol: str) -> Contents:
    """Return a metric with its means: ``blurry`` (input), ``restored``, ``gain``, ``spikes``.

    ``spikes`` is the mean of pictures from spikes alone. Means without finite number are None, with
    the ``reason``.
    """
    figures = summary["metrics"][metric.name]
    alone = summary.get("spikes_alone") or {}
    return {
        **{key: getattr(metric, key) for key in _METRIC_FIELDS},
        # Names contain the protocol, because the page compares metrics of one name.
        "name": column_name(metric.name, protocol),
        "title": column_name(metric.title, protocol),
        "definition": summary.get("definitions", {}).get(metric.name, ""),
        "blurry": figures.get(metric.before),
        "restored": figures.get(metric.after),
        "gain": figures.get("gain"),
        "spikes": alone.get(metric.name),
        "spikes_in_gray": getattr(metric, "of_colour", True),
        "reason": figures.get("reason", ""),
    }


def _examples(folder: Path) -> Contents:
    """Return the examples of an evaluation, the paths of their files, and their choice."""
    index = folder / EXAMPLES_INDEX
    if not index.is_file():
        return {"choice": "", "examples": []}
    contents = read_mapping(index, _ADVICE)
    missing = [name for name in ("choice", "examples") if name not in contents]
    if missing:
        raise RunError(f"{index}: {', '.join(missing)} missing; {_ADVICE}")
    for example in contents["examples"]:
        example["files"] = {kind: folder / file for kind, file in example["files"].items()}
    return {name: contents[name] for name in ("choice", "examples")}
