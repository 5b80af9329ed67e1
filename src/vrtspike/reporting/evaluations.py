"""The evaluation of a run for the report page: figures, sequences, frames, examples, videos."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
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
    ChangedSummaryError,
    read_summary,
)
from vrtspike.analysis.evaluations import (
    OWN_PROTOCOL,
    TEST_FRAMES,
    column_name,
    metrics_of_task,
)
from vrtspike.config.problems import Metric
from vrtspike.errors import RunError
from vrtspike.io.files import read_mapping

_ADVICE = "evaluate again"

REQUIRED = ("dataset", "split", "frames", "sequences", "metrics")
"""Required keys of a summary, besides the fingerprint of its run."""

DEFAULTS = {"protocol": OWN_PROTOCOL, "blur_dir": ""}
"""Values of other problems' evaluations, which lack these keys."""

_METRIC_FIELDS = ("unit", "decimals", "larger_is_better", "before", "after")

MAX_FRAMES = 3000
"""Points of the plot of all frames; of more frames every n-th is drawn."""


Contents = dict[str, Any]
"""Data for the page's JavaScript: JSON values and paths."""


def read_evaluation(folder: Path, fingerprint: str) -> Contents:
    """The evaluation in a folder, or the ``reason`` why there is none.

    Args:
        folder: ``results/evaluate/<preset>``.
        fingerprint: of the expected run.

    Returns:
        entries of the summary on the test frames; ``metrics``, in the order of the problem;
        ``sequence_rows``, one per sequence; ``frame_rows``: sequence, frame, and both
        figures of the first metric, of every ``frame_step``-th frame; ``worst``: sequence, frame,
        figure; ``examples``, worst first, with the paths of their ``files`` by kind;
        ``videos`` and ``figures`` with the path of their ``file``.

    Raises:
        RunError: if a file is damaged or missing, or the summary lacks a required key.
    """
    path = folder / SUMMARY
    if not path.is_file():
        return {"reason": "not evaluated"}
    try:
        summary = read_summary(path)
    except ChangedSummaryError as error:
        return {"reason": str(error)}
    if (found := summary.get("fingerprint")) != fingerprint:
        other = f"the evaluation belongs to another run ({found}, not {fingerprint}); {_ADVICE}"
        return {"reason": other}
    if missing := [name for name in REQUIRED if name not in summary]:
        raise RunError(
            f"{path}: keys {', '.join(missing)} are missing; {_ADVICE}, or have "
            "the problem write what docs/extending.md lists"
        )
    frames, sequences = (
        _main_rows(read_table(folder / name, _ADVICE), summary) for name in (FRAMES, SEQUENCES)
    )
    known = metrics_of_task(summary).values()
    metrics = [_metric(each, summary) for each in known if each.name in summary["metrics"]]
    step = max(1, math.ceil(len(frames) / MAX_FRAMES))
    of_frames = {name: summary.get(name, DEFAULTS.get(name)) for name in TEST_FRAMES}
    return {
        **of_frames,
        "device": summary.get("device", ""),
        "seconds_per_frame": summary.get("seconds_per_frame"),
        "metrics": metrics,
        "warnings": summary.get("warnings", []),
        "spikes_note": summary.get("spikes_alone_note", ""),
        "sequence_columns": list(sequences.columns),
        "sequence_rows": rows_of(sequences),
        "frame_rows": _frame_rows(frames, metrics, step),
        "frame_step": step,
        "worst": [
            (each["sequence"], each["frame"], each[name])
            for each in summary.get("worst") or ()
            for name in each.keys() - {"sequence", "frame"}
        ],
        **_examples(folder / EXAMPLES),
        "videos": [
            {"label": video.stem, "file": video}
            for video in sorted((folder / VIDEOS).glob("*.mp4"))
        ],
        "figures": [
            {"caption": figure["caption"], "file": folder / figure["file"]}
            for figure in summary.get("figures") or ()
        ],
    }


def read_table(path: Path, advice: str) -> pd.DataFrame:
    """Read a CSV table; names are texts, and only empty cells are missing values.

    Raises:
        RunError: if it is missing, with the advice.
    """
    if not path.is_file():
        raise RunError(f"{path}: no such file, which this stage writes; {advice}")
    names = dict.fromkeys(("split", "sequence", "frame"), str)
    return pd.read_csv(path, dtype=names, keep_default_na=False, na_values=[""])


def _main_rows(table: pd.DataFrame, summary: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of the main protocol, with its name in their columns."""
    if "protocol" not in table:
        return table
    protocol = summary["protocol"]
    rows = table[table["protocol"] == protocol].drop(columns="protocol").dropna(axis=1, how="all")
    names = {
        column: column_name(name, protocol) + column.removeprefix(name)
        for name in summary["metrics"]
        for column in (name, f"{name}_blur", f"{name}_spikes")
    }
    return rows.rename(columns=names)


def leading_metric(evaluation: Contents) -> Contents | None:
    """The metric of the page's first sentence: the first one with finite figures."""
    metrics: list[Contents] = evaluation.get("metrics", [])
    return next((m for m in metrics if None not in (m["gain"], m["restored"])), None)


def rows_of(table: pd.DataFrame) -> list[list[Any]]:
    """Rows as JSON values: numbers with six digits, None for numbers that are not finite.

    >>> rows_of(pd.DataFrame({"name": ["a", "b"], "rate": [1.23456789e-7, math.inf]}))
    [['a', 1.23457e-07], ['b', None]]
    """
    short = table.map(lambda value: float(f"{value:.6g}") if isinstance(value, float) else value)
    rows: list[list[Any]] = json.loads(short.to_json(orient="values", double_precision=15))
    return rows


def _metric(metric: Metric, summary: Mapping[str, Any]) -> Contents:
    """A metric with the means of the input (``blurry``), the result (``restored``), the ``gain``.

    Also of pictures from ``spikes`` alone; None if there is no finite number, with the ``reason``.
    """
    name, protocol = metric.name, summary.get("protocol", OWN_PROTOCOL)
    figures, alone = summary["metrics"][name], summary.get("spikes_alone") or {}
    return {
        **{key: getattr(metric, key) for key in _METRIC_FIELDS},
        # With the protocol, because the page compares metrics of one name.
        "name": column_name(name, protocol),
        "title": column_name(metric.title, protocol),
        "definition": summary.get("definitions", {}).get(name, ""),
        "before_column": column_name(name, protocol) + metric.columns[0].removeprefix(name),
        "blurry": figures.get(metric.before),
        "restored": figures.get(metric.after),
        "gain": figures.get("gain"),
        "spikes": alone.get(name),
        "spikes_in_gray": getattr(metric, "of_colour", True),
        "reason": figures.get("reason", ""),
    }


def _frame_rows(frames: pd.DataFrame, metrics: Sequence[Contents], step: int) -> list[list[Any]]:
    if not metrics:
        return []
    columns = ["sequence", "frame", metrics[0]["before_column"], metrics[0]["name"]]
    return rows_of(frames[columns].iloc[::step])


def _examples(folder: Path) -> Contents:
    path = folder / EXAMPLES_INDEX
    if not path.is_file():
        return {"choice": "", "examples": []}
    contents = read_mapping(path, _ADVICE)
    return {
        "choice": contents["choice"],
        "examples": [_example(folder, entry) for entry in contents["examples"]],
    }


def _example(folder: Path, entry: Mapping[str, Any]) -> Contents:
    return {
        **{name: entry[name] for name in ("sequence", "label", "frame", "chosen")},
        "metrics": entry["metrics"],
        "files": {what: folder / file for what, file in entry["files"].items()},
    }
