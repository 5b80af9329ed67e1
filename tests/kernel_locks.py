"""What the kernel tells of locks on files."""

from __future__ import annotations

from pathlib import Path


def is_waited_for(path: Path) -> bool:
    """Whether the kernel lists somebody who waits for a lock on a file."""
    waiting = [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(f":{path.stat().st_ino} " in line for line in waiting)
