"""The logs of one training run as data frames, also while it trains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.records import iter_records, last_records, read_records
from vrtspike.runs.file_names import LOGS, METRICS_LOG
from vrtspike.runs.folder import read_record, require_record
from vrtspike.system.errors import RunError

TIMING_COLUMNS = ["step", "section", "ms"]
STEP_COLUMNS = ["step", "time", "samples", "frames"]
START_COLUMNS = ["time", "step"]

_CHUNK = 64
"""Number of timing records that are in memory at once."""
TIMING_BYTES = 2**20
"""End of the timings that is read: about a hundred steps, of files of gigabytes."""


@dataclass(frozen=True)
class RunLogs:
    """The logs of a run.

    Attributes:
        timing: one row per step and section: ``step``, ``section`` (a path, categorical), ``ms``.
        steps: one row per timed step: ``step``, ``time`` (seconds since the epoch), ``samples``,
            ``frames``.
        train: one row per logged training step: ``step``, ``loss`` and further columns.
        validation: one row per validation: ``step``, ``psnr``, ``ssim`` ...
        memory: one row per memory record, megabytes; nested values have dotted names.
        gpu_activations_mb: GPU memory of activations at its peak; not a number on a CPU.
        starts: one row per start of the training: ``time`` (seconds since the epoch), ``step``
            (finished steps); empty if they are not known.
    """

    timing: pd.DataFrame
    steps: pd.DataFrame
    train: pd.DataFrame
    validation: pd.DataFrame
    memory: pd.DataFrame
    gpu_activations_mb: float = math.nan
    starts: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=START_COLUMNS))


def read_run_logs(folder: str | Path) -> RunLogs:
    """Read the logs of a published result folder or of a run directory.

    A resumed run may have logged steps twice; the later record counts.

    Args:
        folder: folder with ``metrics.jsonl`` and, if enabled, ``timing.jsonl`` and ``memory.jsonl``
            (in a run directory they are in ``logs/``).

    Raises:
        RunError: if there is no ``metrics.jsonl`` or a complete line is not JSON.
    """
    folder = Path(folder)
    records = read_records(require_metrics(folder))
    memory = list(_records(folder, "memory"))
    step_records = (record for record in _records(folder, "timing") if record["kind"] == "step")
    timing, steps = timing_tables(step_records)
    return RunLogs(
        timing=timing,
        steps=steps,
        train=log_table(records, "train", "loss"),
        validation=log_table(records, "validation"),
        memory=log_table(memory, "memory"),
        gpu_activations_mb=_last_activations(memory),
        starts=_starts(folder),
    )


def require_metrics(folder: Path) -> Path:
    """The path of a run's ``metrics.jsonl``.

    Raises:
        RunError: if there is none.
    """
    metrics = folder / METRICS_LOG
    if not metrics.is_file():
        raise RunError(
            f"{folder}: no {METRICS_LOG}, which every training run writes with its first step; "
            "expected the folder of a run that is finished (results/train/<preset>) or has made a "
            "step (runs/<preset>/<fingerprint>)"
        )
    return metrics


def _last_activations(memory: Sequence[dict[str, Any]]) -> float:
    """Return the megabytes of activations at the last logged peak of GPU memory, or NaN."""
    activations = math.nan
    for record in memory:
        if record["kind"] == "gpu_categories" and record["peak_mb"] is not None:
            activations = record.get("activations_mb", math.nan)
    return activations


def _starts(folder: Path) -> pd.DataFrame:
    """Return the starts of :class:`RunLogs`, from the run's record."""
    record = read_record(folder) or {}
    return pd.DataFrame(record.get("starts", []), columns=START_COLUMNS)


def _log_files(folder: Path, name: str) -> list[Path]:
    """Return the published file of a log, or the files of all starts of a run."""
    published = folder / f"{name}.jsonl"
    if published.is_file():
        return [published]
    return sorted((folder / LOGS).glob(f"{name}*.jsonl"))


def _records(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Read the records of a log."""
    for path in _log_files(folder, name):
        yield from iter_records(path)


def log_table(records: Sequence[dict[str, Any]], kind: str, *columns: str) -> pd.DataFrame:
    """Return the last record of a kind for each step, in the order of the steps.

    Nested values get dotted names. The columns ``step``, ``time`` and the given ones exist even
    without records.
    """
    table = pd.json_normalize([record for record in records if record.get("kind") == kind])
    table = table.reindex(columns=list(dict.fromkeys([*table, "step", "time", *columns])))
    table = table.drop(columns="kind", errors="ignore").drop_duplicates("step", keep="last")
    return table.sort_values("step", kind="stable", ignore_index=True)


def validation_of_weights(folder: Path, settings: RunSettings) -> dict[str, float]:
    """Return the metrics of the validation of a published run's weights; none without one.

    The validation is the last one, or with TRAIN.EARLY_STOPPING the best one.

    Args:
        folder: published result folder.
        settings: settings of the run.

    Raises:
        RunError: if ``run.json`` or ``metrics.jsonl`` is missing or damaged.
    """
    validations = log_table(read_records(require_metrics(folder)), "validation")
    if settings.TRAIN.EARLY_STOPPING is not None:
        # Without a best validation, the weights are those of the last step.
        best_step = require_record(folder).get("best_step") or validations["step"].max()
        validations = validations[validations["step"] == best_step]
    metrics = validations.drop(columns=["step", "epoch", "time"], errors="ignore")
    metrics = metrics.tail(1).astype("float64")
    return {str(name): float(column.iloc[0]) for name, column in metrics.items() if len(column)}


def timing_tables(records: Iterator[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables ``timing`` and ``steps`` of :class:`RunLogs`, of the latest record of each step.

    Args:
        records: records of the kind ``step``.
    """
    steps = [pd.DataFrame(columns=STEP_COLUMNS, dtype="float64")]
    times = [pd.DataFrame()]
    while chunk := list(itertools.islice(records, _CHUNK)):
        steps.append(pd.DataFrame(chunk, columns=STEP_COLUMNS, dtype="float64"))
        times.append(pd.DataFrame([record["ms"] for record in chunk], dtype="float64"))
    all_steps = pd.concat(steps, ignore_index=True).astype({"step": "int64"})
    latest = all_steps.drop_duplicates("step", keep="last").sort_values("step", kind="stable")
    table = pd.concat(times, ignore_index=True).loc[latest.index].set_axis(latest["step"])
    # Stored as text, the names of sections would take more memory than the times.
    table.columns = pd.CategoricalIndex(table.columns, name="section")
    timing = pd.Series(table.stack(future_stack=True), name="ms").dropna().reset_index()
    return timing, latest.reset_index(drop=True)


def read_live_logs(folder: Path) -> RunLogs:
    """Read the logs of a run that may still train, with its last timings only.

    The logs of a hundred thousand steps take about a second.

    Args:
        folder: a run folder or a published result folder.

    Returns:
        the logs so far; timings cover the last steps of the last start, memory is left out.

    Raises:
        RunError: if there is no ``metrics.jsonl`` or a complete line is not JSON.
    """
    records = read_records(require_metrics(folder))
    timing, steps = _last_timings(folder)
    return RunLogs(
        timing=timing,
        steps=steps,
        train=log_table(records, "train", "loss"),
        validation=log_table(records, "validation"),
        memory=log_table([], "memory"),
        starts=_starts(folder),
    )


def _last_timings(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the timings of the last steps of the last start, and the steps."""
    files = _log_files(folder, "timing")
    records = last_records(files[-1], TIMING_BYTES) if files else []
    return timing_tables(record for record in records if record["kind"] == "step")
