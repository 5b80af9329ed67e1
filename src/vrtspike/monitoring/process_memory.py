"""Memory of other processes: what each holds alone, what they share, and what the machine has left.

Resident memory counts a shared page in every process that uses it, so that its sum over many
loading workers says far too much. The kernel's proportional share (PSS) divides such pages among
those that use them; its sum is what the processes take together.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from vrtspike.monitoring.nvml import gpu_processes
from vrtspike.system.cgroups import ROOT, cgroup_folders

MEGABYTE = 2**20
RUN_OPTION = "--run-dir"
"""The option of training programs and of torchrun that names the folder of their run."""

SHARED_MEMORY = Path("/dev/shm")

_LIMIT_FILES = ("memory.max", "memory.limit_in_bytes")
_USAGE_FILES = ("memory.current", "memory.usage_in_bytes")
_UNLIMITED = 2**60
"""Version 1 has a number for no limit, somewhat less than 2**63."""


@dataclass(frozen=True)
class ProcessMemory:
    """One process; all in megabytes (2**20 bytes).

    Attributes:
        pid: its number.
        role: what it is to a training: ``torchrun``, ``training``, ``worker`` or ``helper``.
        depth: how many of its ancestors are processes of the run, too.
        resident: pages in memory, shared ones included.
        proportional: the same with each shared page divided by those that use it; None where the
            system does not say.
        own: pages that no other process uses; None as above.
        shared_memory: resident pages of files in memory, by which workers hand over batches.
        swapped: pages that were moved to the disk.
        gpu: memory on GPUs; None where it uses none, or the driver does not tell.
    """

    pid: int
    role: str
    depth: int
    resident: float
    proportional: float | None = None
    own: float | None = None
    shared_memory: float = 0.0
    swapped: float = 0.0
    gpu: float | None = None

    @property
    def taken(self) -> float:
        """Its proportional share, or what is known instead of it."""
        return self.resident if self.proportional is None else self.proportional


@dataclass(frozen=True)
class SystemMemory:
    """The machine, or the container that this process is in; all in megabytes.

    Attributes:
        total: of the machine.
        available: what processes can still get; page cache is given back for that.
        page_cache: contents of files that the kernel keeps.
        shared_total: size of the file system for shared memory; None where there is none.
        shared_used: of it.
        swap_used: pages on the disk.
        limit: of the container or batch job; None for none.
        limit_used: what of that limit cannot be had, without cached files: the kernel drops these
            first.
    """

    total: float
    available: float
    page_cache: float
    shared_total: float | None
    shared_used: float
    swap_used: float
    limit: float | None = None
    limit_used: float | None = None

    @property
    def bound(self) -> tuple[float, float]:
        """Used and total of what ends first: the container's limit or the machine."""
        if self.limit is not None and self.limit_used is not None and self.limit < self.total:
            return self.limit_used, self.limit
        return self.total - self.available, self.total

    @property
    def available_within_limit(self) -> float:
        """What a process of the container can still get."""
        if self.limit is None or self.limit_used is None:
            return self.available
        return max(0.0, min(self.available, self.limit - self.limit_used))


_TORCHRUN = frozenset({"torch.distributed.run", "vrtspike.cluster.torchrun"})
"""Modules of which one is ``torchrun``, started by hand or by the launcher."""


def processes_of_run(folder: Path) -> list[ProcessMemory]:
    """The processes of this machine that train in a run's folder, with all their children.

    Args:
        folder: of the run.

    Returns:
        parents before their children; empty where no process trains there.
    """
    wanted = folder.resolve()
    roots = [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _run_folder(process) == wanted
    ]
    pids = {process.pid for process in roots}
    tree: dict[int, tuple[psutil.Process, int]] = {}
    for process in sorted(roots, key=lambda p: p.pid):
        with contextlib.suppress(psutil.Error):
            if process.ppid() not in pids:
                _add(tree, process, 0)
    on_gpus = gpu_memory()
    measured = (_measure(p, depth, wanted, on_gpus) for p, depth in tree.values())
    return [process for process in measured if process is not None]


def _add(tree: dict[int, tuple[psutil.Process, int]], process: psutil.Process, depth: int) -> None:
    """Add a process and then its children, with the number of ancestors among them."""
    tree[process.pid] = (process, depth)
    with contextlib.suppress(psutil.Error):
        for child in process.children():
            _add(tree, child, depth + 1)


def _run_folder(process: psutil.Process) -> Path | None:
    """The folder that a training program was started for."""
    try:
        words = process.cmdline()
        place = words.index(RUN_OPTION)
        return (Path(process.cwd()) / words[place + 1]).resolve()
    except (psutil.Error, ValueError, IndexError, OSError):
        return None


def _role(process: psutil.Process, folder: Path) -> str:
    words = process.cmdline()
    if _run_folder(process) == folder:
        return "torchrun" if _TORCHRUN.intersection(words) else "training"
    text = " ".join(words)
    parent = process.parent()
    parent_command = " ".join(parent.cmdline()) if parent is not None else ""
    if "forkserver" in text and "forkserver" in parent_command:
        return "worker"
    return "helper" if "forkserver" in text or "resource_tracker" in text else "worker"


def _measure(
    process: psutil.Process, depth: int, folder: Path, on_gpus: Mapping[int, float]
) -> ProcessMemory | None:
    """None for a process that has ended meanwhile."""
    try:
        role, resident = _role(process, folder), process.memory_info().rss / MEGABYTE
    except psutil.Error:
        return None
    gpu = on_gpus.get(process.pid)
    pages = page_sums(process.pid)
    if not pages:
        return ProcessMemory(process.pid, role, depth, resident, gpu=gpu)
    return ProcessMemory(
        process.pid,
        role,
        depth,
        resident,
        pages["Pss"],
        pages["Private_Clean"] + pages["Private_Dirty"],
        pages.get("Pss_Shmem", 0.0),
        pages.get("SwapPss", 0.0),
        gpu,
    )


def page_sums(pid: int) -> dict[str, float]:
    """Sums over the pages of a process in megabytes, by the kernel's names (``Pss``).

    Empty where the system has none, or they may not be read.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return {}
    rows = (line.split() for line in text.splitlines() if line.endswith("kB"))
    return {row[0].removesuffix(":"): int(row[1]) / 1024 for row in rows}


def peak_memory(pid: int) -> float:
    """What a training process held at most so far, in megabytes, with what its children hold now.

    Of the children, loading workers above all, the proportional share counts: what they hold is
    nearly the same all the time.

    Raises:
        psutil.NoSuchProcess: if it has ended.
    """
    process = psutil.Process(pid)
    total = _peak_resident(process)
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            pages = page_sums(child.pid)
            total += pages["Pss"] if pages else child.memory_info().rss / MEGABYTE
    return total


def _peak_resident(process: psutil.Process) -> float:
    """The most that was resident of a process; where the system does not tell, what is."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return float(process.memory_info().rss / MEGABYTE)


def system_memory(cgroups: Path = ROOT) -> SystemMemory:
    """What the machine has, and the container or batch job.

    Args:
        cgroups: where the control groups are mounted.
    """
    memory = psutil.virtual_memory()
    # "Cached" holds the pages of shared memory, which are nobody's to give back.
    cached = getattr(memory, "cached", 0) + getattr(memory, "buffers", 0)
    shared: int = getattr(memory, "shared", 0)
    usage = shutil.disk_usage(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    limit, used = _limit(cgroup_folders("memory", cgroups))
    return SystemMemory(
        memory.total / MEGABYTE,
        memory.available / MEGABYTE,
        max(0, cached - shared) / MEGABYTE,
        usage.total / MEGABYTE if usage else None,
        usage.used / MEGABYTE if usage else 0.0,
        psutil.swap_memory().used / MEGABYTE,
        limit,
        used,
    )


def _limit(groups: Iterable[Path]) -> tuple[float | None, float | None]:
    """The least limit of some groups, and what of it cannot be had, in megabytes; None for none.

    A group above, which others are in, may have less left than the one with the least limit.
    """
    limits, left = [], []
    for group in groups:
        try:
            limit, used = _first_number(group, _LIMIT_FILES), _first_number(group, _USAGE_FILES)
            rows = [line.split() for line in (group / "memory.stat").read_text().splitlines()]
        except (OSError, ValueError):
            continue  # no such group, or one without a limit
        stat = {row[0]: int(row[1]) for row in rows}
        cached = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        if limit < _UNLIMITED:
            limits.append(limit / MEGABYTE)
            left.append((limit - used + cached) / MEGABYTE)
    return (min(limits), min(limits) - min(left)) if limits else (None, None)


def _first_number(group: Path, names: Sequence[str]) -> int:
    """The number in the file of a group that is there, by the names of version 2 and 1."""
    name = next((name for name in names if (group / name).exists()), names[0])
    return int((group / name).read_text())


def gpu_memory() -> dict[int, float]:
    """Megabytes on all GPUs together, by process; empty without a driver."""
    found: dict[int, float] = {}
    for _, pid, used in gpu_processes():
        found[pid] = found.get(pid, 0.0) + used / MEGABYTE
    return found
