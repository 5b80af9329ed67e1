"""How far a job is that works through many things, as its log tells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_STEP = re.compile(rb"^\[(\d+)/(\d+)\] ", re.MULTILINE)
_END_BYTES = 16_384
"""A line for a sequence with many faults is long."""


def steps(logs: Iterable[str | Path]) -> tuple[int, int]:
    """Things done and all of them, of the jobs that write these logs; zeros where none tells.

    Logs of jobs on other machines may come late; the figures are those of the last line seen.
    """
    found = [_last(log) for log in logs]
    return sum(done for done, _ in found), sum(total for _, total in found)


def _last(log: str | Path) -> tuple[int, int]:
    try:
        with Path(log).open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _END_BYTES))
            lines = _STEP.findall(stream.read())
    except OSError:
        return 0, 0  # not there yet
    return (int(lines[-1][0]), int(lines[-1][1])) if lines else (0, 0)
