"""The logs of one training run as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.errors import RunError
from vrtspike.monitoring.records import read_records

TIMING_COLUMNS = ["step", "section", "ms"]
STEP_COLUMNS = ["step", "time", "samples", "frames"]
TRAIN_COLUMNS = ["step", "loss"]
VALIDATION_COLUMNS = ["step", "psnr", "ssim"]
MEMORY_COLUMNS = ["step", "time"]


@dataclass(frozen=True)
class RunLogs:
    """What one run has logged.

    Attributes:
        folder: where the logs were found.
        timing: one row per step and section: ``step``, ``section`` (a path), ``ms``.
        steps: one row per timed step: ``step``, ``time`` (seconds since the epoch), ``samples``,
            ``frames``.
        train: one row per logged training step: ``step``, ``loss`` and what else was logged.
        validation: one row per validation: ``step``, ``psnr``, ``ssim`` ...
        memory: one row per memory line, megabytes; nested values stand under dotted names.
        gpu_categories: what filled the GPU at its peak, megabytes by category; empty on a CPU.
    """

    folder: Path
    timing: pd.DataFrame
    steps: pd.DataFrame
    train: pd.DataFrame
    validation: pd.DataFrame
    memory: pd.DataFrame
    gpu_categories: dict[str, float]


def read_run_logs(folder: str | Path) -> RunLogs:
    """Read the logs of a published result folder or of a run directory.

    A run that was resumed has logged some steps twice; the later record counts.

    Args:
        folder: holds ``metrics.jsonl`` and, where they were enabled, ``timing.jsonl`` and
            ``memory.jsonl`` (in a run directory these stand under ``logs/``).

    Raises:
        RunError: if there is no ``metrics.jsonl`` or a complete line is not JSON.
    """
    folder = Path(folder)
    metrics = folder / "metrics.jsonl"
    if not metrics.is_file():
        raise RunError(
            f"{folder}: no metrics.jsonl, which every training run writes; expected the folder of "
            "a finished run (results/train/<preset>) or a run directory"
        )
    records = _read_lines([metrics])
    timing_files = _log_files(folder, "timing")
    steps = [record for record in _read_lines(timing_files) if record.get("kind") == "step"]
    memory = _read_lines(_log_files(folder, "memory"))
    return RunLogs(
        folder,
        timing=_timing(steps),
        steps=_frame(steps, STEP_COLUMNS).reindex(columns=STEP_COLUMNS),
        train=_frame([r for r in records if r.get("kind") == "train"], TRAIN_COLUMNS),
        validation=_frame(
            [r for r in records if r.get("kind") == "validation"], VALIDATION_COLUMNS
        ),
        memory=_frame([r for r in memory if r.get("kind") == "memory"], MEMORY_COLUMNS),
        gpu_categories=_gpu_categories(memory),
    )


def _log_files(folder: Path, name: str) -> list[Path]:
    published = folder / f"{name}.jsonl"
    if published.is_file():
        return [published]
    return sorted((folder / "logs").glob(f"{name}*.jsonl"))


def _read_lines(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [record for path in paths for record in read_records(path)]


def _frame(
    records: Sequence[dict[str, Any]], columns: Sequence[str], *, unique: bool = True
) -> pd.DataFrame:
    if not records:
        return pd.DataFrame(columns=list(columns))
    frame = pd.json_normalize(list(records)).drop(columns="kind", errors="ignore")
    for column in columns:
        if column not in frame:
            frame[column] = float("nan")
    if unique:
        frame = frame.drop_duplicates("step", keep="last")
    return frame.sort_values("step", kind="stable").reset_index(drop=True)


def _timing(steps: Sequence[dict[str, Any]]) -> pd.DataFrame:
    latest = {record["step"]: record["ms"] for record in steps}
    rows = [(step, section, ms) for step, times in latest.items() for section, ms in times.items()]
    frame = pd.DataFrame(rows, columns=TIMING_COLUMNS)
    return frame.sort_values("step", kind="stable").reset_index(drop=True)


def _gpu_categories(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    latest: dict[str, Any] = {}
    for record in records:
        if record.get("kind") == "gpu_categories" and record.get("peak_mb") is not None:
            latest = record
    return {name: float(value) for name, value in latest.items() if name.endswith("_mb")}
