"""From a finished run's folder to the published result: all files at once, or none."""

from __future__ import annotations

import csv
import json
import math
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vrtspike.errors import RunError
from vrtspike.files import atomic_path, read_json, write_json
from vrtspike.flatten import flatten
from vrtspike.monitoring.records import each_record, read_records
from vrtspike.monitoring.timing_layout import Arithmetic, summarize
from vrtspike.runs.folder import RECORD, ResolvedRun

FINAL_WEIGHTS = "weights.safetensors"
METRICS = "metrics.jsonl"
MEMORY = "memory.jsonl"
LOGS = "logs"

_FIRST_COLUMNS = ("kind", "step", "epoch", "loss", "lr", "grad_norm")


def publish(folder: Path, output: Path) -> None:
    """Copy the result of the finished run in ``folder`` to ``output``, replacing what stood there.

    ``output`` holds ``weights.safetensors``, ``settings.json`` (the settings alone, complete),
    ``run.json``, ``metrics.jsonl``, the same as a table in ``metrics.csv``, ``timing.jsonl`` (each
    step once, however often the run was resumed) and ``memory.jsonl``.

    Raises:
        RunError: if the run is not finished.
    """
    record = read_json(folder / RECORD)
    if record["status"] != "finished":
        raise RunError(f"{folder}: the run is {record['status']}, only a finished one is published")
    with atomic_path(output) as temporary:
        temporary.mkdir()
        shutil.copyfile(folder / FINAL_WEIGHTS, temporary / FINAL_WEIGHTS)
        shutil.copyfile(folder / RECORD, temporary / RECORD)
        shutil.copyfile(folder / METRICS, temporary / METRICS)
        shutil.copyfile(folder / LOGS / MEMORY, temporary / MEMORY)
        settings = ResolvedRun.read(folder).settings
        write_json(temporary / "settings.json", settings.model_dump(mode="json"))
        _write_lines(temporary / "timing.jsonl", merged_timings(folder / LOGS))
        _write_table(temporary / "metrics.csv", read_records(folder / METRICS))


def merged_timings(folder: Path) -> Iterator[dict[str, Any]]:
    """The timing records of all starts of a run: each step as it was last computed, one summary.

    One at a time: those of a million steps would take 12 GB.
    """
    # The names hold the time of the start, so their order is that of the starts.
    paths = sorted(folder.glob("timing_*.jsonl"))
    work: Arithmetic | None = None
    history: dict[str, array[float]] = {}
    steps = samples = frames = 0
    for path, end in zip(paths, _ends(paths), strict=True):
        for record in each_record(path):
            if record["kind"] == "work":
                work = Arithmetic(record["flops_per_sample"], record["peak_flops_per_second"])
            if record["kind"] != "step" or record["step"] >= end:
                continue
            for name, ms in record["ms"].items():
                history.setdefault(name, array("d")).append(ms)
            steps, samples, frames = (
                steps + 1,
                samples + record["samples"],
                frames + record["frames"],
            )
            yield record
    if steps:
        yield {"kind": "summary", **summarize(history, steps, samples, frames, work)}


def _ends(paths: Sequence[Path]) -> list[float]:
    """For each start's file, the first step that a later start computed again."""
    if not paths:
        return []
    ends = [math.inf]
    for path in reversed(paths[1:]):
        steps = (record["step"] for record in each_record(path) if record["kind"] == "step")
        ends.append(min(ends[-1], next(steps, math.inf)))
    return ends[::-1]


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)


def _write_table(path: Path, records: list[dict[str, Any]]) -> None:
    rows = [flatten(record) for record in records]
    names = sorted({name for row in rows for name in row} - set(_FIRST_COLUMNS))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [*_FIRST_COLUMNS, *names], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
