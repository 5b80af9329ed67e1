"""JSON lines that survive a crash and never repeat a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vrtspike.errors import RunError
from vrtspike.files import atomic_write_text, finite_or_null


class Records:
    """Appends JSON objects to a file, one a line, each handed to the operating system at once.

    Args:
        path: the file; its folder is created.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = path.open("a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Append one object; numbers that are not finite become null."""
        self._stream.write(json.dumps(finite_or_null(record), allow_nan=False) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """All complete lines of a file of records; a last line cut off by a crash is left out.

    Raises:
        RunError: if another line is not JSON.
    """
    text = Path(path).read_text(encoding="utf-8")
    lines = text.split("\n")
    records = []
    # What follows the last line break is empty, or the part of a line that a crash left.
    for number, line in enumerate(lines[:-1], start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise RunError(
                f"{path}, line {number}: not a JSON record ({error.msg}); remove the line"
            ) from error
    return records


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
