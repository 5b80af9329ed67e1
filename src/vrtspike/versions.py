"""Whether files are still those that a manifest lists; sizes and dates before contents.

It stays within the standard library, because the workflow asks while it plans.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vrtspike.files import file_digest


def size_and_date(root: Path, path: str) -> tuple[int, int]:
    """Size and date of a file; -1 where there is none to be seen, which the job reports."""
    try:
        # A string: a plan asks for every raw file, and making a Path takes longer than asking.
        status = os.stat(f"{root}/{path}")  # noqa: PTH116
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def file_entry(root: Path, path: str) -> dict[str, Any]:
    """What a manifest keeps of a file; its ``digest`` is empty if it cannot be read.

    Returns:
        ``{"path", "size", "mtime_ns", "digest"}``.
    """
    size, date = size_and_date(root, path)
    return {
        "path": path,
        "size": size,
        "mtime_ns": date,
        "digest": _digest(root / path),
    }


def _digest(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError:
        return ""


def is_unchanged(
    root: Path, files: dict[str, dict[str, Any]], path: str, size: int, date: int
) -> bool:
    """Whether a file is the one that a manifest lists: by its date, or else by its contents.

    Args:
        root: the folder that paths are relative to.
        files: entries of the manifest by path.
        path: the file.
        size: of it now.
        date: of it now.
    """
    entry = files.get(path)
    if entry is None or entry["size"] != size:
        return False
    if not entry["digest"]:  # permissions change without the date
        return not _digest(root / path)
    return bool(entry["mtime_ns"] == date or entry["digest"] == _digest(root / path))
