"""Output of a run: a progress bar on a terminal, plain lines elsewhere.

With a log file, all messages go to the file, and the terminal shows only progress, validations and
warnings.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from vrtspike.io.files import write_errors_name

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

LOG_FILE_VARIABLE = "VRTSPIKE_LOG_FILE"
"""Environment variable: file for all messages of a training."""

INTERVAL_S = 30.0
"""Seconds between two lines of progress in a log or where the screen is not a terminal."""

_BAR_CELLS = 24


@dataclass(frozen=True)
class Messages:
    """Messages of a launcher.

    Attributes:
        log: a file for all messages; None for the terminal.
    """

    log: Path | None = None

    def empty_log(self) -> None:
        """Empty the log, if any."""
        if self.log is not None:
            with write_errors_name(self.log):
                self.log.write_text("", encoding="utf-8")

    def note(self, text: str) -> None:
        """Write a message to the log, or to the terminal without a log."""
        if self.log is None:
            print(text, flush=True)
            return
        with write_errors_name(self.log), self.log.open("a", encoding="utf-8") as stream:
            stream.write(f"{text}\n")

    def show(self, text: str) -> None:
        """Show an important message on the terminal, and write it to the log."""
        # First on the terminal, because the log's disk may be full.
        if self.log is not None:
            print(text, flush=True)
        self.note(text)


class Display:
    """Display of messages, progress and timings of a training.

    On a terminal, an area at its bottom is redrawn: timings and below them the progress bar.
    Elsewhere there are lines without control characters. With a log, the screen shows only
    progress, timings that can be redrawn, and important messages.

    Args:
        screen: stream of the terminal; None shows nothing, as on the other ranks.
        log: file for all messages.
    """

    def __init__(self, screen: TextIO | None = None, log: str | Path | None = None) -> None:
        self._screen = screen
        self._log: TextIO | None = None
        self._live: Live | None = None
        self._block: Sequence[str] = ()
        self._progress = ""
        self._shown_at = -math.inf
        if screen is not None and log is not None:
            self._log = Path(log).open("a", encoding="utf-8")  # noqa: SIM115 - until close()
        if screen is not None and screen.isatty():
            # Imported here, because batch jobs never need the package.
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(file=screen),
                get_renderable=self._area,
                refresh_per_second=10,
                transient=self._log is not None,
            )
            self._live.start()

    def note(self, text: str) -> None:
        """Write a message; only to the log if there is one."""
        self._write(text, self._log or self._screen)

    def show(self, text: str) -> None:
        """Write an important message to the log and the screen."""
        self.note(text)
        if self._log is not None:
            self._write(text, self._screen)

    def update(self, line: str, share: float) -> None:
        """Show the progress; as lines now and then, and at the end.

        Args:
            line: the state of the run.
            share: finished share of the run, 0 to 1.
        """
        filled = int(_BAR_CELLS * share)
        self._progress = f"{'━' * filled}{'╌' * (_BAR_CELLS - filled)} {share:4.0%} {line}"
        now = time.monotonic()
        if now - self._shown_at >= INTERVAL_S or share == 1:
            self._shown_at = now
            self._write(line, self._log)
            if self._live is None:
                self._write(line, self._screen)

    def draw(self, block: Sequence[str], line: str) -> None:
        """Show timings: ``block`` where it can be redrawn, else ``line``."""
        self._block = block
        if self._live is None or self._log is not None:
            self.note(line)

    def close(self) -> None:
        """Restore the terminal and close the log."""
        if self._live is not None:
            self._live.stop()
        if self._log is not None:
            self._log.close()

    def _write(self, text: str, stream: TextIO | None) -> None:
        """Write above the area of a terminal, or lines with the prefix ``[train]``."""
        if stream is None:
            return
        if stream is self._screen and self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
            return
        with write_errors_name(Path(getattr(stream, "name", "output"))):
            stream.writelines(f"[train] {line}\n" for line in text.splitlines())
            stream.flush()

    def _area(self) -> Text:
        from rich.text import Text

        rows = [*self._block, self._progress] if self._progress else self._block
        return Text("\n".join(rows), no_wrap=True, overflow="ellipsis")
