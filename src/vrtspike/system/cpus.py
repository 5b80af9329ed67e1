"""How many CPUs this process may use, and how threads wait for each other."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from vrtspike.system.cgroups import ROOT, cgroup_folders

CPUS = "VRTSPIKE_CPUS"
"""Environment variable: number of CPUs that a program may use; the rules set it."""


def available_cpus(environment: Mapping[str, str] | None = None, cgroups: Path = ROOT) -> int:
    """CPUs this process may use.

    The minimum of affinity, cgroup quota, a batch system's allocation, and :data:`CPUS`.

    Args:
        environment: environment variables; None for those of this process.
        cgroups: mount point of the control groups.

    >>> available_cpus({"SLURM_CPUS_PER_TASK": "1"})
    1
    """
    environment = os.environ if environment is None else environment
    limits = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()]
    limits += [_cgroup_cpus(group) for group in cgroup_folders("cpu", cgroups)]
    limits += [_batch_cpus(environment), _number(environment, CPUS)]
    return max(1, min(limit for limit in limits if limit is not None))


def _batch_cpus(environment: Mapping[str, str]) -> int | None:
    """CPUs on this node allocated by Slurm, PBS, LSF or Grid Engine; None outside of a job."""
    per_task = environment.get("SLURM_CPUS_PER_TASK", "")
    if per_task.isdigit():
        tasks = environment.get("SLURM_NTASKS_PER_NODE", "1")
        return int(per_task) * (int(tasks) if tasks.isdigit() else 1)
    for name in ("SLURM_CPUS_ON_NODE", "PBS_NCPUS", "NCPUS", "LSB_DJOB_NUMPROC", "NSLOTS"):
        if number := _number(environment, name):
            return number
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """A positive number in a variable, if there is one."""
    value = environment.get(name, "")
    return int(value) if value.isdigit() and int(value) > 0 else None


def _cgroup_cpus(group: Path) -> int | None:
    """CPU quota of a control group (version 2 or 1), if it has one."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if quota == "max" or int(quota) <= 0:
        return None
    return max(1, math.floor(int(quota) / int(period)))
