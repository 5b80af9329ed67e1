"""Output of lines that no other thread can divide."""

from __future__ import annotations

from typing import TextIO


def write_line(stream: TextIO, text: str) -> None:
    """Write text and the end of its line in one piece.

    ``print`` writes them one after the other, and what another thread writes may come in between.

    Args:
        stream: output; it is flushed.
        text: one line, or several.
    """
    stream.write(f"{text}\n")
    stream.flush()
