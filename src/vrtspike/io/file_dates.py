"""Dates of files that lie in the future."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from vrtspike.errors import RunError, list_faults
from vrtspike.io.files import file_mark

_SKEW_S = 1.0
"""So much later than now a file may be dated."""


def correct_future_dates(files: Iterable[str], results: Path) -> None:
    """Date files of a plan that are from the future: by another machine's clock, or a copy's.

    What is made of such a file is older than it, and Snakemake removes it: a training, at its end.
    Results are known by their digests and get the date of now, all the same one, so that none is
    newer than what was made of it; that is told.

    Args:
        files: of all jobs, whether they run or not; missing ones do not count.
        results: folder of all results.

    Raises:
        RunError: naming what lies elsewhere, or cannot be dated, with the command.
    """
    latest = time.time() + _SKEW_S
    late = sorted(
        file for file in files if (mark := file_mark(Path(file))) and mark[2] > latest * 1e9
    )
    mended: list[str] = []
    now: tuple[int, int] | None = None
    for file in late:
        if Path(file).absolute().is_relative_to(results.absolute()):
            with contextlib.suppress(PermissionError):
                if now is None:
                    # By the clock of the disk, which may be another machine's.
                    os.utime(file)
                    now = (Path(file).stat().st_mtime_ns,) * 2
                os.utime(file, ns=now)
                mended.append(file)
    if mended:
        more = f" and {len(mended) - 1} more" if mended[1:] else ""
        text = "was dated in the future and is now dated today; the clocks of machines may differ"
        print(f"{mended[0]}{more}: {text}", file=sys.stderr)
    if foreign := [file for file in late if file not in mended]:
        title = "dated in the future, so that Snakemake would remove what is made of them"
        advice = f"Set the clock right, or give them today's date: touch -c {shlex.join(foreign)}"
        raise RunError(list_faults(title, foreign, advice))
