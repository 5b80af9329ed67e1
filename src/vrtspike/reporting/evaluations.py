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
from vrtspike.analysis.evaluations import column_name, metrics_of_task, test_frames
from vrtspike.config.problems import Metric
from vrtspike.io.files import read_mapping
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

_ADVICE = "evaluate again"
REQUIRED = ("dataset", "split", "frames", "sequences", "metrics")
"""Keys that a summary must have."""
_METRIC_FIELDS = ("unit", "decimals", "larger_is_better", "before", "after", "columns")

MAX_FRAMES = 3000
"""Points of the plot of all frames; of more frames every n-th is drawn."""


Contents = dict[str, Any]
"""Data for the page's JavaScript: JSON values and paths."""


def read_evaluation(folder: Path, run: PublishedRun) -> Contents:
    """The evaluation of a run, or the ``reason`` why there is none.

    Args:
        folder: ``results/train/<preset>``; the evaluation is in ``results/evaluate/<preset>``.
        run: the run; an evaluation of another one does not count.

    Returns:
        entries of the summary on the test frames; ``metrics``, first the one by which the
        evaluation ranked frames and examples, the others in the order of the problem;
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
    if missing := [name for name in REQUIRED if name not in summary]:
        raise RunError(
            f"{folder / SUMMARY}: keys {', '.join(missing)} are missing; {_ADVICE}, or have the "
            "problem write what docs/extending.md lists"
        )
    of_frames = test_frames(summary)
    frames, sequences = (
        _of_protocol(read_table(folder / name, _ADVICE), of_frames["protocol"])
        for name in (FRAMES, SEQUENCES)
    )
    worst = summary.get("worst") or ()
    ranking = next(iter(worst), ())
    by_rank = sorted(metrics_of_task(summary).items(), key=lambda each: each[0] not in ranking)
    metrics = [
        _metric(metric, summary, of_frames["protocol"])
        for name, metric in by_rank
        if name in summary["metrics"]
    ]
    step = max(1, math.ceil(len(frames) / MAX_FRAMES))
    columns = [column for metric in metrics for column in metric["columns"]]
    drawn = frames.reindex(columns=["sequence", "frame", *columns]).iloc[::step]
    return {
        **of_frames,
        "seconds_per_frame": summary.get("seconds_per_frame"),
        "metrics": metrics,
        "warnings": summary.get("warnings", []),
        "spikes_note": summary.get("spikes_alone_note", ""),
        "sequence_rows": records(sequences),
        "frame_rows": [[*row.values()] for row in records(drawn)],
        "frame_step": step,
        "worst": [
            (each["sequence"], each["frame"], each[name])
            for each in worst
            for name in each.keys() - {"sequence", "frame"}
        ],
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


def in_base64(path: Path) -> str:
    """The contents of a file, for an address in a page."""
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


def _of_protocol(table: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """The rows of a protocol, without the columns that it leaves empty."""
    if "protocol" not in table:
        return table
    return table[table["protocol"] == protocol].dropna(axis=1, how="all")


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON values: numbers with six digits, None for numbers that are not finite.

    >>> records(pd.DataFrame({"name": ["a", "b"], "rate": [1.23456789e-7, math.inf]}))
    [{'name': 'a', 'rate': 1.23457e-07}, {'name': 'b', 'rate': None}]
    """
    short = table.map(lambda value: float(f"{value:.6g}") if isinstance(value, float) else value)
    rows: list[dict[str, Any]] = json.loads(short.to_json(orient="records", double_precision=15))
    return rows


def _metric(metric: Metric, summary: Mapping[str, Any], protocol: str) -> Contents:
    """A metric with the means of the input (``blurry``), the result (``restored``), the ``gain``.

    Also of pictures from ``spikes`` alone; None if there is no finite number, with the ``reason``.
    """
    figures, alone = summary["metrics"][metric.name], summary.get("spikes_alone") or {}
    return {
        **{key: getattr(metric, key) for key in _METRIC_FIELDS},
        # With the protocol, because the page compares metrics of one name.
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
    index = folder / EXAMPLES_INDEX
    if not index.is_file():
        return {"choice": "", "examples": []}
    contents = read_mapping(index, _ADVICE)
    if missing := [name for name in ("choice", "examples") if name not in contents]:
        raise RunError(f"{index}: {', '.join(missing)} missing; {_ADVICE}")
    for example in contents["examples"]:
        example["files"] = {what: folder / file for what, file in example["files"].items()}
    return {name: contents[name] for name in ("choice", "examples")}
