"""What comes before what: graphs of jobs, and of rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Thing = TypeVar("Thing", bound=Hashable)


def all_before(before: Mapping[Thing, Iterable[Thing]], things: Iterable[Thing]) -> set[Thing]:
    """All that comes before some things, at any distance.

    Args:
        before: what comes directly before each.
        things: those asked about; they are among the answer only if one comes before another.

    >>> sorted(all_before({"a": (), "b": ("a",), "c": ("b",)}, ["c"]))
    ['a', 'b']
    """
    seen: set[Thing] = set()
    waiting = list(things)
    while waiting:
        new = set(before[waiting.pop()]) - seen
        seen |= new
        waiting += new
    return seen
