"""What a plan has to say beside its jobs, said last, where it is read."""

from __future__ import annotations

import atexit
import sys


class Notices:
    """Sentences for the end of this process, each once, on standard error."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        atexit.register(self.say)

    def add(self, text: str) -> None:
        """Say this at the end."""
        self._said.setdefault(text)

    def leave_out(self, text: str) -> None:
        """Say nothing at the end that contains this: it has been said as an error."""
        self._said = {said: None for said in self._said if text not in said}

    def say(self) -> None:
        """Print what is to be said, and forget it."""
        for text in self._said:
            print(text, file=sys.stderr)
        self._said.clear()
