"""Records of a run as JSON lines, and counters of a cache."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vrtspike.errors import RunError
from vrtspike.io.files import atomic_write_text, finite_or_null, writes_to


class Records:
    """Appends JSON objects to a file, one per line, flushing each.

    Args:
        path: the file; its folder is created.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = self._path.open("a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Append one object; numbers that are not finite become null."""
        with writes_to(self._path):
            self._stream.write(json.dumps(finite_or_null(record), allow_nan=False) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """:func:`iter_records` as a list."""
    return list(iter_records(path))


def iter_records(path: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a file, without an incomplete last line after a crash.

    Raises:
        RunError: if another line is not JSON.
    """
    with Path(path).open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith("\n"):
                return
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise RunError(
                    f"{path}, line {number}: not a JSON record ({error.msg}); remove the line"
                ) from error


def merged_timings(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The timing records of all starts of a run, of each step the last one.

    It is a generator, because a million records take 12 GB.

    Args:
        files: one for each start, with the time of the start in its name.
    """
    paths = sorted(files)
    for path, end in zip(paths, _ends(paths), strict=True):
        for record in iter_records(path):
            if record["kind"] == "step" and record["step"] < end:
                yield record


def _ends(paths: Sequence[Path]) -> list[float]:
    """For each start's file, the first step that a later start has repeated."""
    if not paths:
        return []
    ends = [math.inf]
    for path in reversed(paths[1:]):
        steps = (record["step"] for record in iter_records(path) if record["kind"] == "step")
        ends.append(min(ends[-1], next(steps, math.inf)))
    return ends[::-1]


def truncate_records(path: str | Path, step: int, **limits: int) -> None:
    """Remove records after ``step``, so that a resumed run does not repeat them.

    Args:
        path: a file of records; it may be missing.
        step: the last step to keep.
        limits: last steps by kind of record, instead of ``step``.
    """
    path = Path(path)
    if not path.exists():
        return

    def stays(record: dict[str, Any]) -> bool:
        return bool(record.get("step", 0) <= limits.get(record.get("kind", ""), step))

    kept = filter(stays, read_records(path))
    atomic_write_text(path, "".join(json.dumps(record) + "\n" for record in kept))


class CacheUse(NamedTuple):
    """Counters of caches of decoded chunks.

    Attributes:
        lookups: requested chunks.
        reads: reads from files after a miss: chunks, and the index of each file and array once.
        evictions: entries dropped because a cache was full.
        limit_bytes: size limit of the caches.
    """

    lookups: int
    reads: int
    evictions: int = 0
    limit_bytes: int = 0

    def figures(self) -> dict[str, float]:
        """The entry ``cache`` of a record of memory; every read has added an item.

        >>> CacheUse(lookups=40, reads=10, evictions=2).figures()["hit_rate"]
        0.75
        """
        hits = max(0, self.lookups - self.reads)
        return {
            "hits": hits,
            "misses": self.lookups - hits,
            "evictions": self.evictions,
            "items": self.reads - self.evictions,
            "hit_rate": round(hits / max(1, self.lookups), 4),
            "limit_mb": round(self.limit_bytes / 2**20, 1),
            "full": self.evictions > 0,
        }
