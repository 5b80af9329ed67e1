"""Files with modification times in the future."""

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
"""Tolerated difference of clocks in seconds."""


def correct_future_dates(files: Iterable[str], results: Path) -> None:
    """Set modification times in the future, from another machine's clock, to the present.

    Snakemake removes an output that is older than its input, such as a finished training. All
    results get the same time, so that none is newer than what was made from it.

    Args:
        files: of all jobs of the plan; missing ones are ignored.
        results: folder of all results.

    Raises:
        RunError: naming files outside of the results, and those that cannot be changed.
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
                    # The time of the file server's clock.
                    os.utime(file)
                    now = (Path(file).stat().st_mtime_ns,) * 2
                os.utime(file, ns=now)
                mended.append(file)
    if mended:
        more = f" and {len(mended) - 1} more" if mended[1:] else ""
        text = "had a date in the future and got the present date; clocks of machines may differ"
        print(f"{mended[0]}{more}: {text}", file=sys.stderr)
    if foreign := [file for file in late if file not in mended]:
        title = "dated in the future, so that Snakemake would remove results made from them"
        advice = f"Set the clock right, or give them today's date: touch -c {shlex.join(foreign)}"
        raise RunError(list_faults(title, foreign, advice))
