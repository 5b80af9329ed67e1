"""Memory of jobs in megabytes, as resources for Snakemake; a retry asks for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SHARD_MB = 500
"""Memory of a job on a shard, and of each of its processes."""


def memory(megabytes: int) -> Callable[[Any, int], int]:
    """Return a resource function with a fixed memory at the first attempt.

    >>> memory(4000)(None, attempt=2)
    8000
    """

    def attempt_memory(wildcards: Any, attempt: int) -> int:  # noqa: ANN401 - Snakemake's
        return megabytes * attempt

    return attempt_memory


def shard_memory(wildcards: Any, threads: int, attempt: int) -> int:  # noqa: ANN401 - Snakemake's
    """Return the memory of a job on a shard, with one process for each thread.

    >>> shard_memory(None, threads=3, attempt=1)
    2000
    """
    return (1 + threads) * _SHARD_MB * attempt
