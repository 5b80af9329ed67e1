"""The batch job of this process: its time limit, requeueing, and one program on each Slurm node."""

from __future__ import annotations

import math
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from vrtspike.cluster.queries import query
from vrtspike.system.errors import ConfigError

REQUEUE_FILE_VARIABLE = "VRTSPIKE_JOB_AGAIN"
"""Environment variable: file that a job creates in order to be submitted again."""

CONTROLLER_S = 15.0
"""Timeout of queries by a training's launcher; far less than :data:`MARGIN_S`."""

JOB_END_VARIABLE = "VRTSPIKE_JOB_ENDS"
"""Environment variable: end of the job's wall time, in seconds since 1970."""

LIMIT_CHECK_INTERVAL_S = 60.0
"""Seconds between two queries of a job's end, which may be changed meanwhile."""

MARGIN_S = 90.0
"""Seconds before the end of a job at which training is stopped."""

_TIME_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


def parse_slurm_time(text: str) -> float | None:
    """Parse a time in Slurm's format, ``[[days-]hours:]minutes:seconds``.

    Returns:
        seconds; infinite for ``UNLIMITED``, None for other texts, such as ``NOT_SET``.
    """
    if text == "UNLIMITED":
        return math.inf
    match = _TIME_LEFT.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def slurm_seconds_left(job: str) -> float | None:
    """Query the seconds until a job's wall time ends.

    Infinite without limit; None if Slurm does not answer.

    Slurm's warning signal does not always reach the training: with cgroups it is sent to the first
    process of a job step only, which is Snakemake.
    """
    # Slurm is asked for the remaining time, because clocks of machines may differ.
    answer = query(["squeue", "--noheader", "--jobs", job, "--format", "%A %L"], CONTROLLER_S)
    # squeue lists all parts of an array or of a heterogeneous job.
    for line in (answer.text or "").splitlines():
        cells = line.split()
        if len(cells) == 2 and cells[0] == job:
            return parse_slurm_time(cells[1])
    return None


class TimeLimit:
    """Time at which the program of a batch job must be stopped.

    Args:
        left: function that returns the seconds until the job ends, infinite without limit. If it
            returns None, as while a controller restarts, the last known end is used.

    Attributes:
        reached: True once the program has to be stopped.
    """

    def __init__(self, left: Callable[[], float | None]) -> None:
        self._left = left
        self._margin: float | None = None
        self._end = math.inf
        self.seconds()
        self.reached = False

    def seconds(self) -> float:
        """Return the seconds until the program must be stopped, :data:`MARGIN_S` before the end.

        The margin of a short job is a quarter of its time.
        """
        left = self._left()
        if left is not None:
            self._end = time.monotonic() + left
            if self._margin is None and left < math.inf:
                self._margin = min(MARGIN_S, max(0.0, left) / 4)
        rest = max(0.0, self._end - time.monotonic() - (self._margin or 0.0))
        self.reached = rest == 0.0
        return rest


def time_limit(variables: Mapping[str, str]) -> TimeLimit | None:
    """Return the time limit of a batch job, if any.

    Args:
        variables: environment of the job.
    """
    job = variables.get("SLURM_JOB_ID")
    if job:
        return TimeLimit(lambda: slurm_seconds_left(job))
    end = variables.get(JOB_END_VARIABLE, "")
    if end.isdigit():
        return TimeLimit(lambda: float(end) - time.time())
    return None


def requeue(variables: Mapping[str, str]) -> bool:
    """Requeue this job.

    Args:
        variables: environment of the job.

    Returns:
        true if that succeeded.
    """
    file = variables.get(REQUEUE_FILE_VARIABLE)
    if file:
        Path(file).touch()
        return True
    job = variables.get("SLURM_JOB_ID")
    if job is None:
        return False
    return query(["scontrol", "requeue", job], CONTROLLER_S).text is not None


def srun_command(nodes: int, gpus: int | Literal["auto"]) -> list[str]:
    """Build the command that starts a program once on each node of this Slurm job.

    Args:
        nodes: number of nodes of the run.
        gpus: number per node; ``auto`` for all GPUs of the job.

    Raises:
        ConfigError: if this is not a Slurm job of that many nodes.
    """
    allocated = _allocated_nodes()
    if allocated != str(nodes):
        fault = f"the Slurm job has {allocated}" if allocated else "this is no Slurm job"
        raise ConfigError(
            f"NODES is {nodes}, but {fault}. Use the Slurm profile (docs/clusters.md), or start "
            "torchrun on every node yourself with --nnodes and scripts/train.py --run-dir"
        )
    # Without --gpus-per-node, a step over several nodes may get fewer GPUs than the job has.
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    device_options: list[str] = []
    if gpus == 0:
        device_options = ["--gres", "none"]
    elif visible:
        count = len(visible) if gpus == "auto" else gpus
        device_options = ["--gpus-per-node", str(count)]
    command = ["srun", "--overlap", "--nodes", str(nodes), "--ntasks", str(nodes)]
    command += ["--ntasks-per-node", "1"]
    # If a node cannot start, the others must not wait for it.
    command += ["--kill-on-bad-exit=1", "--cpu-bind", "none"]
    return command + device_options


def _allocated_nodes() -> str | None:
    """Return the number of nodes of this Slurm job; None outside Slurm, or without an answer.

    SLURM_JOB_NUM_NODES is missing in the job steps that Snakemake starts.
    """
    if "SLURM_JOB_NUM_NODES" in os.environ:
        return os.environ["SLURM_JOB_NUM_NODES"]
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return None
    answer = query(["squeue", "--noheader", "--jobs", job, "--format", "%D"], CONTROLLER_S)
    return (answer.text or "").strip() or None


def rendezvous_endpoint() -> str:
    """Return a rendezvous endpoint for the nodes of a run: this host and a free port."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        port = listener.getsockname()[1]
    return f"{socket.gethostname()}:{port}"
