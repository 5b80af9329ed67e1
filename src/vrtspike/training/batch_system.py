"""What a Slurm job tells about itself: how long it may last, and how its nodes are reached."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from vrtspike.errors import ConfigError

MARGIN_S = 90.0
"""Seconds before the end of a job at which training is stopped, unless a signal came before."""


class TimeLimit:
    """When the program in a job must be asked to stop.

    Slurm's warning signal does not reach training everywhere: where it tracks processes by cgroups
    it signals the first process of a job step alone, and that is Snakemake, which waits.

    Args:
        job: number of the Slurm job.
        margin_s: seconds before its end; a quarter of a short job's time at most.
    """

    def __init__(self, job: str, margin_s: float = MARGIN_S) -> None:
        self._job = job
        left = self._left()
        self._margin = min(margin_s, left / 4) if left is not None else margin_s

    def seconds(self) -> float | None:
        """Seconds until the program must be asked; None where the job has no end."""
        left = self._left()
        return None if left is None else max(0.0, left - self._margin)

    def is_near(self) -> bool:
        """Whether it is time."""
        return self.seconds() == 0.0

    def _left(self) -> float | None:
        end = _squeue(self._job, "%e")
        try:
            return (datetime.fromisoformat(end) - datetime.now()).total_seconds()
        except ValueError:
            # Jobs without a limit: N/A.
            return None


def time_limit(environment: Mapping[str, str]) -> TimeLimit | None:
    """The time limit of the Slurm job this process belongs to; None outside of one."""
    job = environment.get("SLURM_JOB_ID")
    return TimeLimit(job) if job is not None and shutil.which("squeue") else None


def step_on_every_node(nodes: int, gpus: int | Literal["auto"]) -> list[str]:
    """The command that starts a program once on each node of this Slurm job.

    Args:
        nodes: of the run.
        gpus: for the program on each node; ``auto`` for all that the job has there.

    Raises:
        ConfigError: if this is no Slurm job of that many nodes.
    """
    job = os.environ.get("SLURM_JOB_ID")
    allocated = 0 if job is None else int(_squeue(job, "%D") or "0")
    if job is None or allocated != nodes:
        found = "this is no Slurm job" if job is None else f"the Slurm job has {allocated}"
        raise ConfigError(
            f"NODES is {nodes}, but {found}. Use the Slurm profile (docs/clusters.md), or start "
            "torchrun on every node yourself with --nnodes and scripts/train.py --run-dir"
        )
    # Without a number of its own, a step over several nodes was seen to get fewer than the job has.
    given = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    devices: list[str] = []
    if gpus == 0:
        devices = ["--gres", "none"]
    elif given:
        devices = ["--gpus-per-node", str(len(given) if gpus == "auto" else gpus)]
    return [
        *("srun", "--overlap", "--nodes", str(nodes), "--ntasks", str(nodes)),
        # A node that cannot begin shall not leave the others waiting for it.
        *("--ntasks-per-node", "1", "--kill-on-bad-exit=1", "--cpu-bind", "none", *devices),
    ]


def meeting_point() -> str:
    """Host and port at which the nodes of a run can meet: this host, a port that is free now."""
    with socket.socket() as free:
        free.bind(("", 0))
        return f"{socket.gethostname()}:{free.getsockname()[1]}"


def _squeue(job: str, form: str) -> str:
    done = subprocess.run(
        ["squeue", "--noheader", "--jobs", job, "--format", form], capture_output=True, text=True
    )
    return done.stdout.strip()
