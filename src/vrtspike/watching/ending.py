"""The last lines of a workflow: what it made for people, or how to go on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path


def results_lines(
    made: Collection[str], summaries: Sequence[str], pages: Sequence[str], done: str = ""
) -> list[str]:
    """What a person wants to see of the files that were asked for.

    Args:
        made: all files that the plan makes or knows to be up to date.
        summaries: texts to show, those that are among them.
        pages: reports, the best first; the first among them is named.
        done: what is said between the two; nothing if it is empty.
    """
    lines = []
    for summary in summaries:
        if summary in made and Path(summary).is_file():
            lines.append(Path(summary).read_text(encoding="utf-8").rstrip())
    if done:
        lines.append(done)
    page = next((page for page in pages if page in made and Path(page).is_file()), None)
    if page is not None:
        lines.append(f"report: {page}")
    return lines


def continue_line(arguments: Sequence[str]) -> str:
    """The command that goes on where this one was stopped."""
    return f"continue: {shlex.join(arguments)}"


def unwritable(path: str, reason: str | None = None) -> str:
    """What a user reads where a result cannot be written.

    Args:
        path: a file or folder that Snakemake was to write.
        reason: what the system said, where that is known.
    """
    return (
        f"{path}: {reason or _reason(Path(path).absolute())}; mend that or its permissions, or set "
        "RESULTS (config/config.yaml) to a folder that can be written, and run again"
    )


def _reason(path: Path) -> str:
    """Why a place cannot be written, as the system would say it."""
    folder = next(each for each in (path, *path.parents) if each.exists())
    closed = os.statvfs(folder).f_flag & os.ST_RDONLY
    return "Read-only file system" if closed else "Permission denied"
