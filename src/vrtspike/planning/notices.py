"""What a plan has to say beside its jobs, said last, where it is read."""

from __future__ import annotations

import atexit
import sys


class Notices:
    """Sentences for the end of this process, each once, on standard error."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        atexit.register(self._print)

    def add(self, text: str) -> None:
        """Say this at the end."""
        self._said.setdefault(text)

    def _print(self) -> None:
        for text in self._said:
            print(text, file=sys.stderr)
