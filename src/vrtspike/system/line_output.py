"""Atomic output of lines, so that threads do not interleave."""

from __future__ import annotations

import sys
from typing import TextIO


def write_line(stream: TextIO | None, text: str) -> None:
    """Write text and the end of its line in one piece.

    ``print`` writes them one after the other, and what another thread writes may come in between.

    Args:
        stream: output; it is flushed. None is standard output, as for ``print``: standard error,
            closed when Python began, is None.
        text: one line, or several.
    """
    output = sys.stdout if stream is None else stream
    if output is None:  # closed, too
        return
    output.write(f"{text}\n")
    output.flush()
