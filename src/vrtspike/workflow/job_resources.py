"""Resources of jobs: memory, GPUs and cores; on a cluster the profile decides.

Snakemake evaluates these resources again just before a job starts, when all due jobs are known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from vrtspike.staleness.params import Wildcards
from vrtspike.system.errors import RunError
from vrtspike.workflow.snakemake_internals import SnakemakeInternals

ALL_CORES = 1024
"""More cores than any machine has.

Snakemake limits it to ``--cores``, a profile replaces it.
"""

_SHARD_MB = 500
"""Memory of a job on a shard, and of each of its processes."""


def job_memory(megabytes: int) -> Callable[[Wildcards, int], int]:
    """Return a resource function with a fixed memory at the first attempt.

    >>> job_memory(4000)(None, attempt=2)
    8000
    """

    def attempt_memory(wildcards: Wildcards, attempt: int) -> int:
        return megabytes * attempt

    return attempt_memory


def shard_memory(wildcards: Wildcards, threads: int, attempt: int) -> int:
    """Return the memory of a job on a shard, with one process for each thread.

    >>> shard_memory(None, threads=3, attempt=1)
    2000
    """
    return (1 + threads) * _SHARD_MB * attempt


class LocalDevices:
    """GPUs and cores of a job; several presets share the GPUs of the machine.

    Args:
        gpus: GPUS of the configuration.
        snakemake: interface to Snakemake, which lists the due jobs.
        count: function that counts the usable GPUs of this machine.
    """

    def __init__(
        self, gpus: int | str, snakemake: SnakemakeInternals, count: Callable[[], int]
    ) -> None:
        self._gpus = gpus
        self._snakemake = snakemake
        self._count = cache(count)

    @property
    def _presets(self) -> int:
        """Number of presets that are due, at least 1."""
        due = (job for job in self._snakemake.due_jobs() if job.rule in ("train", "evaluate"))
        return len({job.wildcards["preset"] for job in due}) or 1

    @property
    def gpus(self) -> int:
        """GPUs of a training, as a resource for Snakemake; ``auto`` divides them among presets."""
        if not isinstance(self._gpus, str):
            return self._gpus
        if not self._snakemake.runs_locally:
            return 1
        if not self._count():
            return 0
        return max(1, self._count() // self._presets)

    @property
    def evaluation_gpus(self) -> int:
        """GPUs of an evaluation, as a resource for Snakemake: none if GPUS is 0."""
        return 0 if self._gpus == 0 else 1

    def threads(self, gpus: int) -> int:
        """Return the cores of a job: all, divided among the presets that run together.

        Args:
            gpus: GPUs of the job.
        """
        cores = self._snakemake.cores
        if not self._snakemake.runs_locally or cores is None:
            return ALL_CORES
        at_once = self._count() // gpus if gpus and self._count() else cores
        parallel = max(1, min(self._presets, at_once))
        return max(1, cores // parallel)

    def training_resources(self, nodes: int) -> dict[str, Any]:
        """Return the GPUs of a training as resources for Snakemake.

        On several machines, Snakemake's Slurm executor must allocate one task per node, which the
        launcher starts itself (``mpi``), and GPUs per node; otherwise it derives the number of
        tasks from the GPUs.

        Args:
            nodes: NODES of the configuration. On one machine, the launcher chooses the devices.
        """
        if nodes == 1:
            return {"gpu": lambda wildcards: self.gpus}
        resources = {"nodes": nodes, "tasks": nodes, "mpi": "srun", "tasks_per_gpu": 0}
        if self._gpus:
            resources["gres"] = f"gpu:{1 if self._gpus == 'auto' else self._gpus}"
        return resources

    def options(self, granted: int | None) -> str:
        """Return the launcher's options for GPUs.

        Args:
            granted: GPUs from Snakemake, at most ``--resources gpu=N``; None if it counts none,
                because the training is on several machines.

        Raises:
            RunError: if they are fewer than GPUS.
        """
        if granted is None:
            return ""
        if isinstance(self._gpus, str):
            return f"--max-gpus {granted}" if granted else "--gpus 0"
        if granted < self._gpus:
            raise RunError(
                f"--resources gpu={granted} is less than GPUS ({self._gpus}, config/config.yaml); "
                "raise the one or lower the other"
            )
        return ""
