"""Shards of a data set: many sequences in few jobs.

A digest of its name assigns a sequence to a shard: jobs need no lists of sequences, and while the
number of shards stays, a new sequence moves no other. The number is a power of two, so that it
seldom changes while a data set grows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from vrtspike.system.errors import DataError


def shard_names(count: int) -> list[str]:
    """Return the names of all shards.

    >>> shard_names(2)
    ['0-of-2', '1-of-2']
    """
    return [f"{index}-of-{count}" for index in range(count)]


def shard_of(sequence: str, count: int) -> str:
    """Return the name of the shard that a sequence falls into.

    Args:
        sequence: name of the sequence, ``<split>/<name>``.
        count: number of shards.
    """
    digest = hashlib.sha256(sequence.encode("utf-8", "surrogateescape")).digest()
    return f"{int.from_bytes(digest[:8], 'big') % count}-of-{count}"


def shard_members(shard: str, sequences: Iterable[str]) -> list[str]:
    """Return the sequences, each as ``<split>/<name>``, of a shard, sorted.

    Raises:
        DataError: if the shard has another name than one of :func:`shard_names`.
    """
    match = re.fullmatch(r"(\d+)-of-(\d+)", shard)
    if match is None or shard not in shard_names(int(match[2])):
        raise DataError(f"{shard!r} names no shard; expected for example 0-of-1 or 3-of-8")
    count = int(match[2])
    return sorted(name for name in sequences if shard_of(name, count) == shard)


def shard_count(sequences: int, nbytes: int, max_sequences: int, max_bytes: float) -> int:
    """Return the number of shards of a data set: the smallest power of two that keeps the bounds.

    Args:
        sequences: sequences of the data set.
        nbytes: bytes of all their files.
        max_sequences: largest number of sequences of a shard, on the average.
        max_bytes: largest number of bytes of a shard, on the average.

    >>> shard_count(33, 0, max_sequences=64, max_bytes=1e9)
    1
    >>> shard_count(200, 0, max_sequences=64, max_bytes=1e9)
    4
    """
    count = 1
    # A sequence is not divided.
    while count < sequences and (sequences > count * max_sequences or nbytes > count * max_bytes):
        count *= 2
    return count
