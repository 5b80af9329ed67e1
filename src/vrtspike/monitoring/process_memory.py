"""Memory of other processes (RSS, PSS, USS), of the machine and of its control groups.

Resident memory (RSS) counts a shared page in every process, so that its sum over data loading
workers is too large. The proportional set size (PSS) divides shared pages among their processes.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from vrtspike.monitoring.nvml import gpu_memory
from vrtspike.system.cpus import CGROUP_ROOT, cgroup_folders

MEGABYTE = 2**20
HIGH_PERCENT = 90
"""Used percentage of memory above which a run is warned, and its logs have a finding."""
RUN_OPTION = "--run-dir"
"""Option of training programs with the folder of the run.

Before them on a command line, torchrun would take ``--run`` for its own ``--run-path``.
"""

SHARED_MEMORY = Path("/dev/shm")

_FILES = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Limit and usage of a control group, in version 2 and 1 (there a limit near 2**63 for none)."""


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of a process; all in megabytes (2**20 bytes).

    Attributes:
        pid: process ID.
        role: role in the training: ``torchrun``, ``training``, ``helper`` (of multiprocessing) or
            ``worker`` (started by a helper).
        depth: depth in the tree of the run's processes.
        rss: RSS.
        pss: PSS; None if unknown, as for another user's process.
        uss: USS, the pages of this process alone; None if unknown.
        gpu: GPU memory; None if unknown, or if it uses none.
    """

    pid: int
    role: str
    depth: int
    rss: float
    pss: float | None = None
    uss: float | None = None
    gpu: float | None = None

    @property
    def taken(self) -> float:
        """PSS, or RSS if PSS is unknown."""
        return self.rss if self.pss is None else self.pss


@dataclass(frozen=True)
class SystemMemory:
    """The machine, or the container or batch job that this process is in; all in megabytes.

    Attributes:
        total: memory of the machine, or of the container if its limit is lower.
        used: used part of ``total``.
        available: free memory and page cache, within the container's limit.
        page_cache: cached contents of files.
        shared_total: size of ``/dev/shm``; None if there is none.
        shared_used: used part of it.
        has_limit: true if ``total`` is the container's limit.
    """

    total: float
    used: float
    available: float
    page_cache: float
    shared_total: float | None
    shared_used: float
    has_limit: bool = False


_TORCHRUN = frozenset({"torch.distributed.run", "vrtspike.launching.torchrun"})
"""Modules that are ``torchrun``."""


def processes_of_run(folder: Path) -> list[ProcessMemory]:
    """Return the processes of this machine that train in a run's folder, and their descendants.

    Args:
        folder: folder of the run.

    Returns:
        the processes, parents before their children; empty if none trains there.
    """
    run_folder = folder.resolve()
    on_gpus = gpu_memory()
    memory: dict[tuple[int, ...], ProcessMemory] = {}
    lineages: dict[int, tuple[int, ...]] = {}
    # The oldest first: parents are older than their children.
    processes = psutil.process_iter(["create_time"])
    for process in sorted(processes, key=lambda process: process.info["create_time"]):
        with contextlib.suppress(psutil.Error):  # the process has just ended
            ancestors = lineages.get(process.ppid(), ())
            if _run_folder(process) == run_folder:
                role = "torchrun" if _TORCHRUN.intersection(process.cmdline()) else "training"
            elif ancestors:
                role = "worker" if memory[ancestors].role == "helper" else "helper"
            else:
                continue
            lineage = (*ancestors, process.pid)
            lineages[process.pid] = lineage
            memory[lineage] = _process_memory(
                process, role, len(ancestors), on_gpus.get(process.pid)
            )
    return [memory[lineage] for lineage in sorted(memory)]


def _process_memory(
    process: psutil.Process, role: str, depth: int, gpu: float | None
) -> ProcessMemory:
    # The values are None for another user's process.
    pages = process.as_dict(["memory_full_info"])["memory_full_info"]
    return ProcessMemory(
        process.pid,
        role,
        depth,
        process.memory_info().rss / MEGABYTE,
        None if pages is None else pages.pss / MEGABYTE,
        None if pages is None else pages.uss / MEGABYTE,
        gpu,
    )


def _run_folder(process: psutil.Process) -> Path | None:
    """Return the run's folder in the command line of a training program."""
    try:
        words = process.cmdline()
        index = words.index(RUN_OPTION)
        return (Path(process.cwd()) / words[index + 1]).resolve()
    except (psutil.Error, ValueError, IndexError, OSError):
        return None


def system_memory(cgroups: Path = CGROUP_ROOT) -> SystemMemory:
    """Return the memory of the machine, and of the container or batch job.

    Args:
        cgroups: mount point of the control groups.
    """
    memory = psutil.virtual_memory()
    # "cached" includes shared memory, which cannot be freed.
    cached = getattr(memory, "cached", 0) + getattr(memory, "buffers", 0)
    shared: int = getattr(memory, "shared", 0)
    usage = shutil.disk_usage(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    total: float = memory.total
    used = total - memory.available
    limit, left = _limit(cgroup_folders("memory", cgroups))
    if limit < total:
        total = limit
        used = limit - left
    return SystemMemory(
        total / MEGABYTE,
        used / MEGABYTE,
        max(0, min(memory.available, left)) / MEGABYTE,
        max(0, cached - shared) / MEGABYTE,
        usage.total / MEGABYTE if usage else None,
        usage.used / MEGABYTE if usage else 0.0,
        has_limit=limit < memory.total,
    )


def _limit(groups: Iterable[Path]) -> tuple[float, float]:
    """Return the smallest limit and free memory of nested groups in bytes; infinite for none.

    An outer group, which others use, may have less free memory than the one with the lowest limit.
    """
    limits = [math.inf]
    left = [math.inf]
    for group, (limit_file, usage_file) in itertools.product(groups, _FILES):
        try:
            limit = int((group / limit_file).read_text())
            used = int((group / usage_file).read_text())
            rows = [line.split() for line in (group / "memory.stat").read_text().splitlines()]
        except (OSError, ValueError):
            continue  # the group is missing or has no limit
        stat = {row[0]: int(row[1]) for row in rows}
        cached = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        limits.append(limit)
        left.append(limit - used + cached)
    return min(limits), min(left)
