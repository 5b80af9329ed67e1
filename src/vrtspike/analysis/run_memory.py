"""Memory of a running training: its processes, and the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.diagnosis.memory_symptoms import full_memory
from vrtspike.analysis.diagnosis.symptom import RunFacts
from vrtspike.analysis.run_measurements import Memory, RunMeasurements
from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import ABSENT
from vrtspike.io.records import iter_records
from vrtspike.monitoring.process_memory import (
    ProcessMemory,
    SystemMemory,
    processes_of_run,
    system_memory,
)
from vrtspike.runs.file_names import METRICS_LOG
from vrtspike.runs.folder import require_record
from vrtspike.runs.identity import RunIdentity

_COLUMNS = {"rss": "RSS", "pss": "PSS", "uss": "USS", "gpu": "GPU"}
_FULL_SHARE = 0.8


def memory_lines(folder: Path) -> list[str]:
    """Describe the memory of a run: its processes on this machine, sums, machine, warnings.

    Args:
        folder: folder of the run.

    Raises:
        RunError: if the folder belongs to no run.
    """
    settings = RunIdentity.read(folder).settings
    record = require_record(folder)
    processes = processes_of_run(folder)
    system = system_memory()
    steps = _progress(folder, record)
    if processes:
        resident = sum(process.rss for process in processes)
        taken = sum(process.taken for process in processes)
        lines = [
            f"{folder}: training, {steps}",
            "",
            _table(processes),
            f"together: {_size(taken)}; the sum of RSS, {_size(resident)}, counts shared pages in "
            "every process",
        ]
    else:
        starts = record.get("starts", ())
        host = f", started on {starts[-1]['host']}" if starts else ""
        lines = [f"{folder}: no process trains here ({record['status']}{host}, {steps})"]
    scope = "container" if system.has_limit else "machine"
    lines += [
        "",
        f"{scope}: {_size(system.used)} of {_size(system.total)} in use "
        f"({100 * system.used / system.total:.0f} %); page cache {_size(system.page_cache)}, which "
        "is freed when needed",
    ]
    if system.shared_total is not None:
        use = f"{_size(system.shared_used)} of {_size(system.shared_total)}"
        lines.append(f"shared memory (/dev/shm): {use}")
    cache = "none"
    if settings.cache_gb > 0:
        cache = f"at most {settings.cache_gb:g} GB for all workers together ({settings.cache_key})"
    lines.append(f"cache of decoded chunks: {cache}")
    return lines + [
        f"! {warning}" for warning in memory_warnings_of_run(settings, processes, system)
    ]


def _progress(folder: Path, record: Mapping[str, Any]) -> str:
    """Return the last step of a run, and the number of all steps if it is known."""
    log = folder / METRICS_LOG
    step = record["step"]
    if log.is_file():
        # The log is newer than ``run.json``.
        step = max((int(line["step"]) for line in iter_records(log)), default=step)
    total = record.get("total_steps")
    return f"step {step} of {total}" if total else f"step {step}"


def _table(processes: Sequence[ProcessMemory]) -> str:
    """Return a row for each process, in megabytes."""
    names = ["  " * process.depth + process.role for process in processes]
    table = pd.DataFrame(map(vars, processes), index=names).drop(columns=["role", "depth"])
    # The column of GPUs is left out if none is used.
    table = table.rename(columns=_COLUMNS).dropna(axis="columns", how="all")
    table = table.rename_axis(columns="process, MB")
    return table.to_string(float_format="%.0f", na_rep=ABSENT, col_space=9)


def _size(megabytes: float) -> str:
    """Return a size in GiB, or in MB if it is smaller."""
    if megabytes < 1024:
        return f"{megabytes:.0f} MB"
    return f"{megabytes / 1024:.1f} GiB"


def memory_warnings_of_run(
    settings: RunSettings, processes: Sequence[ProcessMemory], system: SystemMemory
) -> Iterator[str]:
    """Yield warnings on memory, with keys to lower."""
    taken = sum(process.taken for process in processes)
    memory = Memory(process_mb=taken, system_percent=100 * system.used / system.total)
    run = RunFacts(RunMeasurements(memory=memory), settings)
    finding = full_memory.find(run)
    if finding is not None:
        keys = f" ({'; '.join(finding.key_lines)})" if finding.keys else ""
        yield f"{finding.evidence}: {finding.change}{keys}"
    if system.shared_total and system.shared_used > _FULL_SHARE * system.shared_total:
        advice = "start the container with a larger --shm-size"
        if settings.DATALOADER.TRAIN_PREFETCH_FACTOR > 1:
            advice = f"lower DATALOADER.TRAIN_PREFETCH_FACTOR, or {advice}"
        yield (
            f"/dev/shm is nearly full, a worker that finds no space ends with a bus error: {advice}"
        )
