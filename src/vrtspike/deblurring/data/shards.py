"""Shards of a data set: many sequences in few jobs.

A digest of its name says which shard a sequence belongs to: jobs need no lists of sequences, and a
new sequence moves no other. The number of shards is a power of two, so that it
seldom changes while a data set grows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from vrtspike.errors import DataError

_NAME = re.compile(r"(\d+)-of-(\d+)")


@dataclass(frozen=True)
class Shard:
    """One of some shards; the first has the number 0."""

    number: int
    count: int

    def __str__(self) -> str:
        """The name, as in file names: ``3-of-8``."""
        return f"{self.number}-of-{self.count}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """The shard of a name.

        Raises:
            DataError: if there is none.

        >>> Shard.parse("3-of-8")
        Shard(number=3, count=8)
        """
        found = _NAME.fullmatch(name)
        if found is None or int(found[1]) >= int(found[2]):
            raise DataError(f"{name!r} names no shard; expected for example 0-of-1 or 3-of-8")
        return cls(int(found[1]), int(found[2]))

    def of(self, sequences: Iterable[str]) -> list[str]:
        """Those sequences, each as ``<split>/<name>``, that fall into this shard, sorted."""
        return sorted(name for name in sequences if shard_number(name, self.count) == self.number)


def shard_number(sequence: str, count: int) -> int:
    """The shard that a sequence falls into.

    Args:
        sequence: as ``<split>/<name>``.
        count: how many shards there are.
    """
    digest = hashlib.sha256(sequence.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") % count


def divide(sequences: Iterable[str], count: int) -> dict[Shard, list[str]]:
    """The shards that hold any of some sequences, in order, each with its sequences, sorted."""
    found: dict[int, list[str]] = {}
    for name in sequences:
        found.setdefault(shard_number(name, count), []).append(name)
    return {Shard(number, count): sorted(found[number]) for number in sorted(found)}


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
    while sequences > count * most_sequences or nbytes > count * most_bytes:
        if count >= sequences:
            break  # a sequence is not divided
        count *= 2
    return count


def shards(count: int) -> list[Shard]:
    """All shards of so many."""
    return [Shard(number, count) for number in range(count)]
