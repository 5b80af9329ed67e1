"""Why a Slurm job failed, in words that say what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OWN = re.compile(r"^(?:slurmstepd|slurmd|srun)[^:\s]*: .*$", re.MULTILINE)
"""Lines of Slurm's own programs in a job's log; where a machine has several nodes, with a name."""
_MEMORY = re.compile(r"oom[-_ ]kill|out[ -]of[ -]memory|exceeded .*memory limit", re.IGNORECASE)
"""What they write when a step is ended for its memory."""

_WHY = {
    "BOOT_FAIL": "its node did not boot",
    "CANCELLED": "it was cancelled, by scancel or by the site",
    "DEADLINE": "its deadline came",
    "NODE_FAIL": "its node failed",
    "PREEMPTED": "it made room for other jobs (preempted)",
    "REVOKED": "another cluster took it over",
}


@dataclass(frozen=True)
class Ending:
    """How a job failed.

    Attributes:
        why: a clause that ends a sentence.
        out_of_memory: whether more memory would have helped.
    """

    why: str
    out_of_memory: bool = False


def explain(state: str, log: str, node: str = "", limit: str = "", memory_mb: int = 0) -> Ending:
    """Why a job failed.

    Args:
        state: that Slurm tells, such as ``TIMEOUT``.
        log: text of the log that Slurm keeps of the job. A step that is killed for its memory makes
            the job just ``FAILED`` where Slurm does not use cgroups; its log tells.
        node: where it ran.
        limit: its wall time.
        memory_mb: what it asked for; 0 if unknown.

    >>> explain("TIMEOUT", "", limit="1:00:00").why
    'it ran into its wall time of 1:00:00; a longer one is set by runtime (minutes) in the profile'
    """
    own = "\n".join(_OWN.findall(log))
    if state == "OUT_OF_MEMORY" or _MEMORY.search(own):
        asked = f" than the {memory_mb} MB it asked for" if memory_mb else ""
        return Ending(f"it needed more memory{asked}", out_of_memory=True)
    if state == "TIMEOUT":
        wall = f" of {limit}" if limit else ""
        return Ending(
            f"it ran into its wall time{wall}; a longer one is set by runtime (minutes) in the "
            "profile"
        )
    if state in _WHY:
        where = f" ({node})" if node else ""
        return Ending(f"{_WHY[state]}{where}")
    return Ending("its program failed" if state == "FAILED" else f"Slurm says {state}")


def more_memory(asked_mb: int, limit_mb: int) -> int:
    """What a job asks for after it has run out of memory: twice as much, up to a limit; 0 is none.

    >>> more_memory(2000, 0), more_memory(2000, 3000), more_memory(4000, 3000)
    (4000, 3000, 4000)
    """
    doubled = 2 * asked_mb
    return max(asked_mb, min(doubled, limit_mb)) if limit_mb else doubled
