"""What a launcher says: on the terminal, or in a log with only the important on the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vrtspike.files import writes_to
from vrtspike.monitoring.display import LOG_FILE


@dataclass(frozen=True)
class Messages:
    """Where a launcher's messages go.

    Attributes:
        log: a file for the full text; None for the terminal.
    """

    log: Path | None = None

    def begin(self) -> None:
        """Empty the log."""
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.write_text("", encoding="utf-8")

    def note(self, text: str) -> None:
        """Write a message to the log, or show it where there is none."""
        if self.log is None:
            print(text, flush=True)
            return
        with writes_to(self.log), self.log.open("a", encoding="utf-8") as stream:
            stream.write(f"{text}\n")

    def tell(self, text: str) -> None:
        """Show a message that a person has to know; a log receives it, too."""
        # Shown first: the log may stand on a disk that is full.
        if self.log is not None:
            print(text, flush=True)
        self.note(text)

    @property
    def environment(self) -> dict[str, str]:
        """Variables from which the training processes know the log."""
        return {} if self.log is None else {LOG_FILE: str(self.log.absolute())}
