"""Records as JSON lines, which a run appends to files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vrtspike.io.files import atomic_path, finite_or_null, parse_json, write_errors_name
from vrtspike.system.errors import RunError


class RecordWriter:
    """Writer of JSON objects to a file, one per line, each flushed.

    Args:
        path: the file; its folder is created.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = self._path.open("a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Append one object; numbers that are not finite become null."""
        with write_errors_name(self._path):
            self._stream.write(json.dumps(finite_or_null(record), allow_nan=False) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of :func:`iter_records` as a list."""
    return list(iter_records(path))


def iter_records(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file, without an incomplete last line after a crash.

    Raises:
        RunError: if another line is no record.
    """
    with Path(path).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            yield _parse(path, line, f"line {number}")


def _parse(path: str | Path, line: bytes, location: str) -> dict[str, Any]:
    """The record of a complete line, which begins at a place of a file.

    Raises:
        RunError: if it is no JSON mapping.
    """
    try:
        record = parse_json(line.decode())
        if not isinstance(record, dict):
            raise ValueError("expected a mapping")
    except ValueError as error:
        raise RunError(
            f"{path}, {location}: not a JSON record ({error}); remove the line"
        ) from error
    return record


def last_records(path: str | Path, size: int) -> list[dict[str, Any]]:
    """The complete records within the last bytes of a file, without reading the others.

    Args:
        path: path of a file with a JSON record on each line.
        size: bytes.

    Raises:
        RunError: if a complete line is no record.
    """
    with Path(path).open("rb") as stream:
        start = max(0, os.fstat(stream.fileno()).st_size - size)
        if start > 0:
            # The byte before distinguishes a whole first line from the end of one.
            stream.seek(start - 1)
            stream.readline()
        lines = [line for line in stream if line.endswith(b"\n")]
    return [_parse(path, line, "near its end") for line in lines]


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
    # Line by line, because the timings of a million steps take 12 GB.
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        for record in iter_records(path):
            if record.get("step", 0) <= limits.get(record.get("kind", ""), step):
                stream.write(json.dumps(record) + "\n")
