"""JSON lines that survive a crash and never repeat a step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vrtspike.errors import RunError
from vrtspike.files import atomic_write_text, finite_or_null, writes_to


class Records:
    """Appends JSON objects to a file, one a line, each handed to the operating system at once.

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
    """All that :func:`each_record` finds."""
    return list(each_record(path))


def each_record(path: str | Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a file of records; a last line cut off by a crash is left out.

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


def truncate_records(path: str | Path, step: int, **limits: int) -> None:
    """Remove what lies beyond ``step``, so that a resumed run continues without repeats.

    Args:
        path: a file of records; it may be missing.
        step: the last step whose records stay.
        limits: the same for records of one kind, where it differs.
    """
    path = Path(path)
    if not path.exists():
        return

    def stays(record: dict[str, Any]) -> bool:
        return bool(record.get("step", 0) <= limits.get(record.get("kind", ""), step))

    kept = filter(stays, read_records(path))
    atomic_write_text(path, "".join(json.dumps(record) + "\n" for record in kept))
