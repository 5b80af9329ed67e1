"""What the programs of a batch system say, why a Slurm job failed, and the job of this process.

Of the latter: when it ends, its nodes, and how it is queued again.
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

from vrtspike.errors import EXIT_USER_ERROR, ConfigError

JOB_END = "VRTSPIKE_JOB_ENDS"
"""Environment variable: when the job's wall time ends, in seconds since 1970."""

REQUEUE_FILE = "VRTSPIKE_JOB_AGAIN"
"""Environment variable: a file that a job makes to be submitted again when it has ended."""

QUERY_S = 30.0
"""Seconds for an answer; Slurm's own programs give up after about ten."""


@dataclass(frozen=True)
class CommandResult:
    """What a program said.

    Attributes:
        text: its output; None if it failed or took too long.
        fault: why there is no output, in a line.
        said: all that it wrote, output and errors, whatever its exit status.
    """

    text: str | None
    fault: str = ""
    said: str = field(default="", repr=False)


_USER = ("SQUEUE_", "SACCT_", "SCANCEL_")
"""Settings of the user's own: they could leave jobs out, or want an answer."""


def query(command: Sequence[str], limit_s: float = QUERY_S) -> CommandResult:
    """Run a program that only tells something.

    Args:
        command: the program and its arguments.
        limit_s: seconds after which it is killed.

    >>> query(["echo", "12|RUNNING"])
    CommandResult(text='12|RUNNING\\n', fault='')
    >>> query(["sleep", "60"], limit_s=0.1)
    CommandResult(text=None, fault='sleep: no answer within 0.1 s')
    """
    # In English, whatever the user has set for himself.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(_USER)}
    try:
        done = subprocess.run(
            command,
            env={**variables, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            # Who ends the programs of a workflow leaves this one its time, as scancel needs it.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return CommandResult(None, f"{command[0]}: no answer within {limit_s:g} s")
    except OSError as error:
        return CommandResult(None, f"{command[0]}: {error.strerror}")
    text = done.stdout + done.stderr
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        fault = said[-1].strip() if said else f"{command[0]}: ended with status {done.returncode}"
        return CommandResult(None, fault, text)
    return CommandResult(done.stdout, said=text)


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
"""By the states that a job does not leave. LOST is for one that has none."""

NEAR_END = "the time limit of the job is near"
"""How a training begins to say that it stops because of it."""

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
"""What stands in the log of a job that Slurm only calls ``FAILED``, and what it means."""


def explain(state: str, log: str) -> str:
    """Why a job failed: a clause that ends a sentence.

    Args:
        state: one of :data:`FAILURE_REASONS`.
        log: the end of the log that Slurm keeps of the job.

    >>> explain("FAILED", "Command 'train' died with <Signals.SIGKILL: 9>.")
    'its program was ended by SIGKILL, as when memory is full'
    """
    causes = (why for pattern, why in _CAUSES.items() if re.search(pattern, log))
    return next(causes, FAILURE_REASONS[state]) if state == "FAILED" else FAILURE_REASONS[state]


def is_permanent(log: str) -> bool:
    """Whether a job failed because of what only a user can fix, such as faulty data."""
    return f"non-zero exit status {EXIT_USER_ERROR}." in log


CONTROLLER_S = 15.0
"""Seconds in which Slurm's controller must answer; far less than the margin."""

LIMIT_CHECK_INTERVAL_S = 60.0
"""Seconds after which the end of a job is looked up again: it can be moved."""

MARGIN_S = 90.0
"""Seconds before the end of a job at which training is stopped."""

_TIME_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


def seconds_left(text: str) -> float | None:
    """Seconds of a time as Slurm writes it: ``days-hours:minutes:seconds``, from minutes on.

    Infinite for ``UNLIMITED``; None for all that names no time, such as ``NOT_SET``.
    """
    if text == "UNLIMITED":
        return math.inf
    found = _TIME_LEFT.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def slurm_seconds_left(job: str) -> float | None:
    """Seconds until a job's wall time ends; infinite if it has none, None if Slurm does not answer.

    Slurm's warning signal does not reach training everywhere: where Slurm tracks processes by
    cgroups it signals the first process of a job step alone, and that is Snakemake, which waits.
    """
    # The time left, not the hour of the end: clocks differ and are changed.
    answer = query(["squeue", "--noheader", "--jobs", job, "--format", "%A %L"], CONTROLLER_S)
    # An array and a job of several components are listed with all their parts.
    rows = (line.split() for line in (answer.text or "").splitlines())
    return next((seconds_left(row[1]) for row in rows if len(row) == 2 and row[0] == job), None)


def requeue(variables: Mapping[str, str]) -> bool:
    """Have this job run again later; whether the batch system agrees to that."""
    if again := variables.get(REQUEUE_FILE):
        Path(again).touch()
        return True
    job = variables.get("SLURM_JOB_ID")
    return job is not None and query(["scontrol", "requeue", job], CONTROLLER_S).text is not None


def srun_command(nodes: int, gpus: int | Literal["auto"]) -> list[str]:
    """The command that starts a program once on each node of this Slurm job.

    Args:
        nodes: of the run.
        gpus: for the program on each node; ``auto`` for all that the job has there.

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


def _allocated_nodes() -> str | None:
    """How many nodes this Slurm job has; None if it is none, or the controller does not answer.

    Slurm says it in SLURM_JOB_NUM_NODES, of which Snakemake's job steps keep the job's number only.
    """
    if "SLURM_JOB_NUM_NODES" in os.environ:
        return os.environ["SLURM_JOB_NUM_NODES"]
    if (job := os.environ.get("SLURM_JOB_ID")) is None:
        return None
    answer = query(["squeue", "--noheader", "--jobs", job, "--format", "%D"], CONTROLLER_S)
    return (answer.text or "").strip() or None


def rendezvous_endpoint() -> str:
    """Host and port at which the nodes of a run can meet: this host, a port that is free now."""
    with socket.socket() as free:
        free.bind(("", 0))
        return f"{socket.gethostname()}:{free.getsockname()[1]}"


class TimeLimit:
    """When the program in a job must be asked to stop.

    Args:
        left: tells the seconds until the job ends, infinite if it has no end; None where that is
            not known just now, as while a controller restarts: the end that was told last holds.

    Attributes:
        reached: whether the program had to be asked.
    """

    def __init__(self, left: Callable[[], float | None]) -> None:
        self._left = left
        self._margin: float | None = None
        self._end = math.inf
        self.seconds()
        self.reached = False

    def seconds(self) -> float:
        """Seconds until the program must be asked: :data:`MARGIN_S` before the end.

        Of a short job a quarter is kept, of the time that was left at first.
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
    """The limit of the job this process belongs to, if Slurm or the job itself tells one."""
    if job := variables.get("SLURM_JOB_ID"):
        return TimeLimit(lambda: slurm_seconds_left(job))
    told = variables.get(JOB_END, "")
    return TimeLimit(lambda: float(told) - time.time()) if told.isdigit() else None
