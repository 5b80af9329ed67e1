"""Shards of a data set: many sequences in few jobs.

A digest of its name says which shard a sequence belongs to: jobs need no lists of sequences, and a
new sequence moves no other. The number of shards is a power of two, so that it
seldom changes while a data set grows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from vrtspike.system.errors import DataError


def shard_names(count: int) -> list[str]:
    """The names of all shards of so many.

    >>> shard_names(2)
    ['0-of-2', '1-of-2']
    """
    return [f"{number}-of-{count}" for number in range(count)]


def shard_of(sequence: str, count: int) -> str:
    """The name of the shard that a sequence falls into.

    Args:
        sequence: as ``<split>/<name>``.
        count: how many shards there are.
    """
    digest = hashlib.sha256(sequence.encode("utf-8", "surrogateescape")).digest()
    return f"{int.from_bytes(digest[:8], 'big') % count}-of-{count}"


def members(shard: str, sequences: Iterable[str]) -> list[str]:
    """Those sequences, each as ``<split>/<name>``, that fall into a shard, sorted.

    Raises:
        DataError: if the shard has another name than one of :func:`shard_names`.
    """
    found = re.fullmatch(r"(\d+)-of-(\d+)", shard)
    if found is None or shard not in shard_names(int(found[2])):
        raise DataError(f"{shard!r} names no shard; expected for example 0-of-1 or 3-of-8")
    return sorted(name for name in sequences if shard_of(name, int(found[2])) == shard)


def shard_count(sequences: int, nbytes: int, most_sequences: int, most_bytes: float) -> int:
    """Into how many shards a data set is divided: the least power of two that keeps the bounds.

    Args:
        sequences: how many the data set has.
        nbytes: bytes of all their files.
        most_sequences: of a shard, on the average.
        most_bytes: of a shard, on the average.

    >>> shard_count(33, 0, most_sequences=64, most_bytes=1e9)
    1
    >>> shard_count(200, 0, most_sequences=64, most_bytes=1e9)
    4
    """
    count = 1
    # A sequence is not divided.
    while count < sequences and (sequences > count * most_sequences or nbytes > count * most_bytes):
        count *= 2
    return count
