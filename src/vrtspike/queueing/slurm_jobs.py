"""Jobs as Slurm's controller lists them, and how those end that it no longer lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

GOOD = "COMPLETED"
BAD = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
        # Final where a preempted job is not queued again; else it is PENDING at once.
        *("PREEMPTED", "REVOKED", "TIMEOUT"),
    )
)
"""States a job does not leave."""

_AWAY = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "Communication connection failure",
    "Transport endpoint is not connected",
    "Slurm backup controller in standby mode",
    "Resource temporarily unavailable",
    "Unable to establish controller machine",
    "Unable to establish configuration source",
)
"""What Slurm's programs say when the controller cannot be reached; a job may be there or not."""


@dataclass(frozen=True)
class QueuedJob:
    """A job as ``squeue`` lists it.

    Attributes:
        number: of the job; ``<number>_<task>`` for one of an array.
        state: in Slurm's words, such as ``RUNNING``.
        comment: given at submission.
        node: where it runs or ran; empty before.
        limit: its wall time, as Slurm writes it.
    """

    number: str
    state: str
    comment: str = ""
    node: str = ""
    limit: str = ""


def list_command(name: str) -> list[str]:
    """The command that lists all jobs of this name, also those that have ended."""
    form = "%i|%T|%N|%l|%k"
    options = ["--noheader", "--array", "--states", "all", "--format", form]
    return ["squeue", *options, "--name", name]


def read_list(text: str) -> dict[str, QueuedJob]:
    """The jobs in the output of :func:`list_command`, by number.

    >>> read_list("12|RUNNING|n0|1:00:00|rule_train_wildcards_tiny")["12"].state
    'RUNNING'
    """
    jobs = {}
    for line in text.splitlines():
        number, state, node, limit, comment = [*line.strip().split("|", 4), *[""] * 5][:5]
        if number:
            jobs[number] = QueuedJob(number, state, comment, node, limit)
    return jobs


def record_command(number: str) -> list[str]:
    """The command that asks the accounting, where there is any, for the state of a job."""
    options = ["--allocations", "--noheader", "--parsable2", "--format", "State"]
    return ["sacct", *options, "--jobs", number]


def read_record(text: str) -> str | None:
    """The state in the output of :func:`record_command`; None if there is none.

    >>> read_record("CANCELLED by 0\\n")
    'CANCELLED'
    """
    words = text.split()
    return words[0] if words else None


def is_away(message: str) -> bool:
    """Whether a program's message says that Slurm's controller cannot be reached."""
    return any(words in message for words in _AWAY)


def find_new(jobs: Mapping[str, QueuedJob], comment: str, known: Iterable[str]) -> str | None:
    """The number of a job that was accepted though its submission seemed to fail.

    Args:
        jobs: all jobs of the name.
        comment: of the job that was submitted.
        known: numbers of the jobs whose submission succeeded.
    """
    others = set(known)
    found = (job.number for job in jobs.values() if job.comment == comment)
    return next((number for number in found if number not in others), None)
