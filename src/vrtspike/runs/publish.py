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
from vrtspike.files import atomic_path
from vrtspike.flatten import flatten
from vrtspike.monitoring.records import each_record, read_records
from vrtspike.monitoring.timing_layout import Arithmetic, summarize
from vrtspike.runs import names
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.record import read_record
from vrtspike.runs.statistics import write_statistics

_COPIED = (names.WEIGHTS, names.SETTINGS, names.RECORD, names.CODE, names.METRICS)
_FIRST_COLUMNS = ("kind", "step", "epoch", "loss", "lr", "grad_norm")


def publish(folder: Path, output: Path) -> None:
    """Copy the result of the finished run in ``folder`` to ``output``, replacing what stood there.

    What ``output`` holds stands in :mod:`vrtspike.runs.names`; of ``timing.jsonl`` each step stands
    there once, however often the run was resumed.

    Raises:
        RunError: if the run is not finished, or its data set has changed before its statistics
            were kept.
    """
    record = read_record(folder)
    status = "not begun" if record is None else record["status"]
    if status != "finished":
        raise RunError(f"{folder}: the run is {status}, only a finished one is published")
    logs = folder / names.LOGS
    copied = list(_COPIED)
    if RunIdentity.read(folder).dataset_digest is not None:
        copied.append(names.STATISTICS)
        if not (folder / names.STATISTICS).is_file():  # finished by an earlier version
            write_statistics(folder)
    with atomic_path(output) as temporary:
        temporary.mkdir()
        for name in copied:
            shutil.copyfile(folder / name, temporary / name)
        shutil.copyfile(logs / names.MEMORY, temporary / names.MEMORY)
        _write_lines(temporary / names.TIMING, merged_timings(logs))
        _write_table(temporary / names.METRICS_TABLE, read_records(folder / names.METRICS))


def merged_timings(folder: Path) -> Iterator[dict[str, Any]]:
    """The timing records of all starts of a run: each step as it was last computed, one summary.

    One at a time: those of a million steps would take 12 GB.
    """
    # The names hold the time of the start, so their order is that of the starts.
    paths = sorted(folder.glob(names.TIMING_OF_STARTS))
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
