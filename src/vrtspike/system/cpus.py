"""Number of CPUs of this process, and its control groups (container, batch job, service)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
"""The control groups of this process."""

CPUS_VARIABLE = "VRTSPIKE_CPUS"
"""Environment variable: number of CPUs that a program may use; the rules set it."""


def available_cpus(
    environment: Mapping[str, str] | None = None, cgroups: Path = CGROUP_ROOT
) -> int:
    """Return the number of CPUs that this process may use.

    The minimum of affinity, cgroup quota, a batch system's allocation, and :data:`CPUS_VARIABLE`.

    Args:
        environment: environment variables; None for those of this process.
        cgroups: mount point of the control groups.

    >>> available_cpus({"SLURM_CPUS_PER_TASK": "1"})
    1
    """
    environment = os.environ if environment is None else environment
    limits = [
        _machine_cpus(),
        *(_cgroup_cpus(group) for group in cgroup_folders("cpu", cgroups)),
        _batch_cpus(environment),
        number_in(environment, CPUS_VARIABLE),
    ]
    return max(1, min((limit for limit in limits if limit is not None), default=1))


def _machine_cpus() -> int | None:
    """Count the CPUs of this process's affinity, or of the machine without affinities."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _batch_cpus(environment: Mapping[str, str]) -> int | None:
    """Count the CPUs of this node that a batch system has allocated; None outside of a job."""
    per_task = number_in(environment, "SLURM_CPUS_PER_TASK")
    if per_task is not None:
        return per_task * (number_in(environment, "SLURM_NTASKS_PER_NODE") or 1)
    for name in ("SLURM_CPUS_ON_NODE", "PBS_NCPUS", "NCPUS", "LSB_DJOB_NUMPROC", "NSLOTS"):
        number = number_in(environment, name)
        if number is not None:
            return number
    return None


def number_in(environment: Mapping[str, str], name: str) -> int | None:
    """Return a positive number in a variable, the first of a list, if there is one.

    >>> number_in({"OMP_NUM_THREADS": "4,2"}, "OMP_NUM_THREADS")
    4
    """
    value = environment.get(name, "").partition(",")[0].strip()
    return int(value) if value.isdecimal() and int(value) > 0 else None


def _cgroup_cpus(group: Path) -> int | None:
    """Return the CPU quota of a control group (version 2 or 1), if it has one."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        with contextlib.suppress(OSError, ValueError):
            text = " ".join((group / name).read_text() for name in names)
            quota, period = text.split()
            return None if quota in ("max", "-1") else max(1, int(quota) // int(period))
    return None


def cgroup_folders(controller: str, root: Path = CGROUP_ROOT) -> Iterator[Path]:
    """Yield the folders of this process's nested control groups, the innermost first.

    Each may have a limit, and the smallest counts: the limit of a Slurm job is two groups above its
    step. Control groups of version 1 and 2 are included; some of the folders may not exist.

    Args:
        controller: controller of version 1, such as ``memory``; version 2 has one tree for all.
        root: mount point.
    """
    try:
        rows = MEMBERSHIP.read_text().splitlines()
    except OSError:
        rows = []
    for row in [*rows, "0::/", f"0:{controller}:/"]:
        _, controllers, path = row.split(":", 2)
        trees = []
        if not controllers:
            trees = [root, root / "unified"]
        elif controller in controllers.split(","):
            trees = [root / controller]
        for tree in trees:
            # In a container, the path may be that on the host.
            innermost = tree / path.lstrip("/")
            for group in (innermost, *innermost.parents):
                if group.is_relative_to(tree):
                    yield group
