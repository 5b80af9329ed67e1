"""Reasons of failed batch jobs."""

from __future__ import annotations

import re

from vrtspike.system.errors import EXIT_USER_ERROR

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
"""Reasons by Slurm's final job states; LOST is a job without a state."""

NEAR_END = "the time limit of the job is near"
"""Prefix of the launcher's message before it stops a training."""

QUEUED_AGAIN = "this job is queued again"
"""Prefix of the launcher's message at the end of an attempt; the next may append to the log."""

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
"""Patterns in the log of a ``FAILED`` job, with the reason that they show."""


def explain_failure(state: str, log: str) -> str:
    """Explain why a job failed, as the end of a sentence.

    Args:
        state: one of :data:`FAILURE_REASONS`.
        log: Slurm's log of the job.

    >>> explain_failure("FAILED", "Command 'train' died with <Signals.SIGKILL: 9>.")
    'its program was ended by SIGKILL, as when memory is full'
    """
    if state == "FAILED":
        last_attempt = log.rpartition(QUEUED_AGAIN)[2]
        for pattern, reason in _CAUSES.items():
            if re.search(pattern, last_attempt):
                return reason
    return FAILURE_REASONS[state]


def is_permanent(log: str) -> bool:
    """Return whether a job failed for a reason that a retry cannot change, such as faulty data."""
    return f"non-zero exit status {EXIT_USER_ERROR}." in log
