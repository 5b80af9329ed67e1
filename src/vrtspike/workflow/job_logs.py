"""The end of a failed job's log, for error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from vrtspike.io.files import disk_full_error

LOG_LINES = 20
"""Number of shown lines of a failed job's log that contains no message ``error:``."""

MESSAGE_LINES = 100
"""Maximum number of shown lines of a message ``error:``, which may list thousands of sequences."""

_ERROR = re.compile(r"error(?: \(process \d+\))?: ")
_SAVED = re.compile(r"saved at step \d+ of \d+; ")
"""Message of a training that was stopped and has saved its state."""


def log_tail(logs: Sequence[str]) -> str:
    """Return the end of the first non-empty log of a failed job.

    The text begins at the last line that starts with ``error:``; the middle of a long message is
    left out. If a training was stopped and has saved its state, its message is returned.

    >>> log_tail([])
    'it has no log'
    """
    if not logs:
        return "it has no log"
    for log in logs:
        lines = _read_lines(Path(log))
        if any(lines):
            return _describe_end(log, lines)
    for log in logs:
        if disk_full_error(Path(log).parent):
            return f"{log}: the disk is full; free space and run again"
    return f"its log is empty: {', '.join(logs)}"


def _read_lines(log: Path) -> list[str]:
    """Read the lines of a log, only the last state of a progress bar; empty without a file."""
    if not log.is_file():
        return []
    text = log.read_bytes().decode("utf-8", "replace")
    return [line.rsplit("\r", 1)[-1].rstrip() for line in text.rstrip().split("\n")]


def _describe_end(log: str, lines: Sequence[str]) -> str:
    """Return the part of a log that explains the failure, after its name."""
    errors = [index for index, line in enumerate(lines) if _ERROR.match(line)]
    saved = [line for line in lines if _SAVED.search(line)]
    if saved and not errors:
        return f"{saved[-1]} ({log})"
    end = list(lines[errors[-1] :]) if errors else list(lines[-LOG_LINES:])
    surplus = len(end) - MESSAGE_LINES
    if surplus > 0:
        # The last line is kept: it gives advice.
        end[MESSAGE_LINES - 1 : -1] = [f"  ... and {surplus} lines more, in {log}"]
    return "\n".join([f"the end of {log}:", *(f"    {line}" for line in end)])
