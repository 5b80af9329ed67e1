"""What a Slurm job tells about itself: how long it may last, and how its nodes are reached."""

from __future__ import annotations

import math
import os
import re
import shutil
import socket
import time
from collections.abc import Mapping
from typing import Literal

from vrtspike.errors import ConfigError
from vrtspike.launching.job_end import margin
from vrtspike.queueing.ask import ask

LOOK_S = 60.0
"""Seconds after which the end of a job is looked up again: it can be moved."""

ANSWER_S = 15.0
"""Seconds in which Slurm's controller must answer; far less than the margin."""

_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


class TimeLimit:
    """When the program in a job must be asked to stop.

    Slurm's warning signal does not reach training everywhere: where it tracks processes by cgroups
    it signals the first process of a job step alone, and that is Snakemake, which waits.

    Args:
        job: number of the Slurm job.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self._margin: float | None = None
        self._end = math.inf
        self._look()

    def seconds(self) -> float:
        """Seconds until the program must be asked; infinite where the job has no end.

        While Slurm does not answer (a controller that restarts, a network that is down), the end
        that it named last holds.
        """
        self._look()
        return max(0.0, self._end - time.monotonic() - (self._margin or 0.0))

    def _look(self) -> None:
        """Ask for the time left, not for the hour of the end: clocks differ and are changed."""
        answer = _squeue(self._job, "%L")
        left = None if answer is None else seconds_left(answer)
        if left is None:
            return
        self._end = time.monotonic() + left
        if self._margin is None and left < math.inf:
            self._margin = margin(left)


def seconds_left(text: str) -> float | None:
    """Seconds of a time as Slurm writes it: ``days-hours:minutes:seconds``, from minutes on.

    Infinite for ``UNLIMITED``; None for all that names no time, such as ``NOT_SET``.
    """
    if text == "UNLIMITED":
        return math.inf
    found = _LEFT.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


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
    allocated = None if job is None else _allocated_nodes(job)
    if allocated != str(nodes):
        found = "this is no Slurm job"
        if job is not None:
            found = f"the Slurm job has {allocated or 'a number of nodes that squeue cannot tell'}"
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


def _allocated_nodes(job: str) -> str | None:
    return os.environ.get("SLURM_JOB_NUM_NODES") or _squeue(job, "%D")


def _squeue(job: str, form: str) -> str | None:
    """What Slurm's controller says of a job; None if it gives no answer.

    Args:
        job: its number; an array and a job of several components are listed with all their parts.
        form: one field.
    """
    answer = ask(["squeue", "--noheader", "--jobs", job, "--format", f"%A {form}"], ANSWER_S)
    answers = (line.split() for line in (answer.text or "").splitlines())
    return next((words[1] for words in answers if len(words) == 2 and words[0] == job), None)
