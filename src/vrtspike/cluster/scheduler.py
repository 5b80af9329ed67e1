"""Commands of batch systems, reasons of failed Slurm jobs, and the batch job of this process.

Of the latter: its time limit, its nodes, and requeueing.
"""

from __future__ import annotations

import math
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from vrtspike.system.errors import EXIT_USER_ERROR, ConfigError

JOB_END = "VRTSPIKE_JOB_ENDS"
"""Environment variable: end of the job's wall time, in seconds since 1970."""

REQUEUE_FILE = "VRTSPIKE_JOB_AGAIN"
"""Environment variable: file that a job creates in order to be submitted again."""

QUERY_S = 30.0
"""Timeout of a query; Slurm's own programs give up after about 10 s."""


@dataclass(frozen=True)
class CommandResult:
    """Result of a command.

    Attributes:
        text: standard output; None if the command failed or timed out.
        fault: error message in a line; empty if the command succeeded.
        output: standard output and standard error, whatever the exit status.
    """

    text: str | None
    fault: str = ""
    output: str = field(default="", repr=False)


_USER = ("SQUEUE_", "SACCT_", "SCANCEL_")
"""The user's variables for Slurm's commands, which could filter jobs or ask for confirmation."""


def query(command: Sequence[str], limit_s: float = QUERY_S) -> CommandResult:
    """Run a command of a batch system and return its output.

    Args:
        command: the program and its arguments.
        limit_s: seconds after which it is killed.

    >>> query(["echo", "12|RUNNING"])
    CommandResult(text='12|RUNNING\\n', fault='')
    >>> query(["sleep", "60"], limit_s=0.1)
    CommandResult(text=None, fault='sleep: no answer within 0.1 s')
    """
    # LC_ALL: messages in English.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(_USER)}
    try:
        done = subprocess.run(
            command,
            env={**variables, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            # Ctrl-C must not end it: scancel needs its time.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return CommandResult(None, f"{command[0]}: no answer within {limit_s:g} s")
    except OSError as error:
        return CommandResult(None, f"{command[0]}: {error.strerror}")
    output = done.stdout + done.stderr
    if done.returncode == 0:
        return CommandResult(done.stdout, output=output)
    last = done.stderr.strip().rpartition("\n")[2].strip()
    fault = last or f"{command[0]}: ended with status {done.returncode}"
    return CommandResult(None, fault, output)


FAILURE_REASONS = {
    "BOOT_FAIL": "its node did not boot",
    "CANCELLED": "it was cancelled, by scancel or by the site",
    "COMPLETED": "it ended well",
    "DEADLINE": "its deadline came",
    "FAILED": "its program failed",
    "LOST": "Slurm no longer knows it, and its results are not there",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it needed more memory than it asked for; mem_mb in the profile sets it",
    "PREEMPTED": "it was preempted by other jobs",
    "REVOKED": "another cluster took it over",
    "TIMEOUT": "it ran into its wall time; runtime (minutes) in the profile sets it",
}
"""By Slurm's final job states, and LOST for a job without a state."""

NEAR_END = "the time limit of the job is near"
"""Beginning of the launcher's message before it stops a training."""

_CAUSES = {
    r"(?im)^(slurm|srun)[^:]*: .*(oom.kill|out of memory|exceeded memory limit)": FAILURE_REASONS[
        "OUT_OF_MEMORY"
    ],
    NEAR_END: "its wall time was about to end, so it stopped; what was saved is continued",
    r"died with <Signals\.SIGKILL|exit status 137|task \d+: Killed": (
        "its program was ended by SIGKILL, as when memory is full"
    ),
    r"died with <Signals\.SIGTERM|exit status 143|task \d+: Terminated": (
        "its program was ended by SIGTERM"
    ),
}
"""Patterns in the log of a ``FAILED`` job, and the reason that they show."""


def explain(state: str, log: str) -> str:
    """Why a job failed, as the end of a sentence.

    Args:
        state: one of :data:`FAILURE_REASONS`.
        log: Slurm's log of the job.

    >>> explain("FAILED", "Command 'train' died with <Signals.SIGKILL: 9>.")
    'its program was ended by SIGKILL, as when memory is full'
    """
    causes = (why for pattern, why in _CAUSES.items() if re.search(pattern, log))
    return next(causes, FAILURE_REASONS[state]) if state == "FAILED" else FAILURE_REASONS[state]


def is_permanent(log: str) -> bool:
    """Whether a job failed for a reason that a retry cannot change, such as faulty data."""
    return f"non-zero exit status {EXIT_USER_ERROR}." in log


CONTROLLER_S = 15.0
"""Timeout of queries by a training's launcher; far less than :data:`MARGIN_S`."""

LIMIT_CHECK_INTERVAL_S = 60.0
"""Seconds between two queries of a job's end, which can be changed."""

MARGIN_S = 90.0
"""Seconds before the end of a job at which training is stopped."""

_TIME_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


def seconds_left(text: str) -> float | None:
    """Seconds of a time in Slurm's format, ``[[days-]hours:]minutes:seconds``.

    Infinite for ``UNLIMITED``; None for other texts, such as ``NOT_SET``.
    """
    if text == "UNLIMITED":
        return math.inf
    found = _TIME_LEFT.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def slurm_seconds_left(job: str) -> float | None:
    """Seconds until a job's wall time ends; infinite without limit, None if Slurm does not answer.

    Slurm's warning signal does not always reach the training: with cgroups it is sent to the first
    process of a job step only, which is Snakemake.
    """
    # The remaining time, because clocks of machines may differ.
    answer = query(["squeue", "--noheader", "--jobs", job, "--format", "%A %L"], CONTROLLER_S)
    # squeue lists all parts of an array or of a heterogeneous job.
    rows = (line.split() for line in (answer.text or "").splitlines())
    return next((seconds_left(row[1]) for row in rows if len(row) == 2 and row[0] == job), None)


def requeue(variables: Mapping[str, str]) -> bool:
    """Requeue this job; returns whether that succeeded."""
    if again := variables.get(REQUEUE_FILE):
        Path(again).touch()
        return True
    job = variables.get("SLURM_JOB_ID")
    return job is not None and query(["scontrol", "requeue", job], CONTROLLER_S).text is not None


def srun_command(nodes: int, gpus: int | Literal["auto"]) -> list[str]:
    """The command that starts a program once on each node of this Slurm job.

    Args:
        nodes: of the run.
        gpus: per node; ``auto`` for all that the job has there.

    Raises:
        ConfigError: if this is no Slurm job of that many nodes.
    """
    allocated = _allocated_nodes()
    if allocated != str(nodes):
        found = f"the Slurm job has {allocated}" if allocated else "this is no Slurm job"
        raise ConfigError(
            f"NODES is {nodes}, but {found}. Use the Slurm profile (docs/clusters.md), or start "
            "torchrun on every node yourself with --nnodes and scripts/train.py --run-dir"
        )
    # Without this option, a step over several nodes may get fewer GPUs than the job has.
    given = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    devices: list[str] = []
    if gpus == 0:
        devices = ["--gres", "none"]
    elif given:
        devices = ["--gpus-per-node", str(len(given) if gpus == "auto" else gpus)]
    return [
        *("srun", "--overlap", "--nodes", str(nodes), "--ntasks", str(nodes)),
        # If a node cannot start, the others must not wait for it.
        *("--ntasks-per-node", "1", "--kill-on-bad-exit=1", "--cpu-bind", "none", *devices),
    ]


def _allocated_nodes() -> str | None:
    """Number of nodes of this Slurm job; None outside Slurm, or if the controller does not answer.

    SLURM_JOB_NUM_NODES is missing in the job steps that Snakemake starts.
    """
    if "SLURM_JOB_NUM_NODES" in os.environ:
        return os.environ["SLURM_JOB_NUM_NODES"]
    if (job := os.environ.get("SLURM_JOB_ID")) is None:
        return None
    answer = query(["squeue", "--noheader", "--jobs", job, "--format", "%D"], CONTROLLER_S)
    return (answer.text or "").strip() or None


def rendezvous_endpoint() -> str:
    """Rendezvous endpoint of the nodes of a run: this host and a free port."""
    with socket.socket() as free:
        free.bind(("", 0))
        return f"{socket.gethostname()}:{free.getsockname()[1]}"


class TimeLimit:
    """When the program of a batch job must be stopped.

    Args:
        left: returns the seconds until the job ends, infinite without limit; None if unknown, as
            while a controller restarts: then the last known end is used.

    Attributes:
        reached: whether the program had to be stopped.
    """

    def __init__(self, left: Callable[[], float | None]) -> None:
        self._left = left
        self._margin: float | None = None
        self._end = math.inf
        self.seconds()
        self.reached = False

    def seconds(self) -> float:
        """Seconds until the program must be stopped, :data:`MARGIN_S` before the end.

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
    """The time limit of this process's batch job, if any."""
    if job := variables.get("SLURM_JOB_ID"):
        return TimeLimit(lambda: slurm_seconds_left(job))
    end = variables.get(JOB_END, "")
    return TimeLimit(lambda: float(end) - time.time()) if end.isdigit() else None
