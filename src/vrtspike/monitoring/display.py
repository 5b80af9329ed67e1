"""Output of a run: a progress bar on a terminal, plain lines elsewhere.

With a log file, all messages go to the file, and the terminal shows only progress, validations and
warnings.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from vrtspike.io.files import writes_to
from vrtspike.system.progress_bar import format_duration

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

LOG_FILE = "VRTSPIKE_LOG_FILE"
"""Environment variable: file for all messages of a training."""

PLAIN_INTERVAL_S = 10.0
BRIEF_INTERVAL_S = 60.0
"""Seconds between lines of progress, with a log file and without a terminal."""

_REDRAW_INTERVAL_S = 0.1
_BAR_CELLS = 24


@dataclass(frozen=True)
class Messages:
    """Writes a launcher's messages.

    Attributes:
        log: a file for all messages; None for the terminal.
    """

    log: Path | None = None

    def begin(self) -> None:
        """Empty the log."""
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.write_text("", encoding="utf-8")

    def note(self, text: str) -> None:
        """Write a message to the log, or to the terminal without a log."""
        if self.log is None:
            print(text, flush=True)
            return
        with writes_to(self.log), self.log.open("a", encoding="utf-8") as stream:
            stream.write(f"{text}\n")

    def show(self, text: str) -> None:
        """Show an important message on the terminal, and write it to the log."""
        # First on the terminal, because the log's disk may be full.
        if self.log is not None:
            print(text, flush=True)
        self.note(text)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that pass the log file to the training processes."""
        return {} if self.log is None else {LOG_FILE: str(self.log.absolute())}


@dataclass(frozen=True)
class Status:
    """State of a run after a step."""

    step: int
    total: int
    epoch: int
    loss: float
    metric: tuple[str, float] | None
    samples_per_second: float
    data_ms: float
    eta_s: float

    def line(self) -> str:
        """The state in one line, the most important first."""
        metric = "" if self.metric is None else f" | {self.metric[0]} {self.metric[1]:.4g}"
        return (
            f"step {self.step}/{self.total} | eta {format_duration(self.eta_s)}"
            f" | epoch {self.epoch} | loss {self.loss:.4f}{metric}"
            f" | {self.samples_per_second:.3g} samples/s | data {self.data_ms:.1f} ms"
        )


class Display:
    """Shows messages, progress and timings; this base class, for other ranks, shows nothing."""

    def note(self, text: str) -> None:
        """Write a message; only to the log if there is one."""

    def show(self, text: str) -> None:
        """Write an important message, to the terminal, too."""
        self.note(text)

    def update(self, status: Status) -> None:
        """Show the progress."""

    def draw(self, block: Sequence[str], line: str) -> None:
        """Show timings: ``block`` if it can be redrawn, else ``line``."""

    def close(self) -> None:
        """Restore the terminal."""


class PlainDisplay(Display):
    """Lines without control characters, for logs of batch jobs."""

    def __init__(self, stream: TextIO, interval: float = PLAIN_INTERVAL_S) -> None:
        self._stream, self._interval = stream, interval
        self._shown_at = float("-inf")

    def note(self, text: str) -> None:
        """Print the message, each line with the prefix ``[train]``."""
        with writes_to(Path(getattr(self._stream, "name", "output"))):
            self._stream.writelines(f"[train] {line}\n" for line in text.splitlines())
            self._stream.flush()

    def update(self, status: Status) -> None:
        """Print the progress, at most every ``interval`` seconds and at the end."""
        now = time.monotonic()
        if now - self._shown_at >= self._interval or status.step == status.total:
            self._shown_at = now
            self.note(status.line())

    def draw(self, block: Sequence[str], line: str) -> None:
        """Print the line."""
        self.note(line)


class TerminalDisplay(Display):
    """One area at the bottom of the terminal: timings and below them the progress bar.

    Args:
        stream: the terminal.
        transient: whether the area is removed when the display is closed.
    """

    def __init__(self, stream: TextIO, transient: bool = False) -> None:
        # Imported here: batch jobs never need it.
        from rich.console import Console
        from rich.live import Live

        self._block: Sequence[str] = ()
        self._status: Status | None = None
        self._drawn_at = float("-inf")
        self._live: Live = Live(
            console=Console(file=stream), auto_refresh=False, transient=transient
        )
        self._live.start()

    def note(self, text: str) -> None:
        """Print the message above the area."""
        self._live.console.print(text, markup=False, highlight=False)

    def update(self, status: Status) -> None:
        """Redraw the bar, at most ten times a second and at the end."""
        self._status = status
        self._redraw(force=status.step == status.total)

    def draw(self, block: Sequence[str], line: str) -> None:
        """Redraw the timings."""
        self._block = block
        self._redraw(force=True)

    def close(self) -> None:
        """Stop redrawing."""
        self._live.stop()

    def _redraw(self, force: bool) -> None:
        now = time.monotonic()
        if force or now - self._drawn_at >= _REDRAW_INTERVAL_S:
            self._drawn_at = now
            self._live.update(self._area(), refresh=True)

    def _area(self) -> Text:
        from rich.text import Text

        rows = list(self._block)
        if self._status is not None:
            share = self._status.step / self._status.total
            filled = int(_BAR_CELLS * share)
            bar = "━" * filled + "╌" * (_BAR_CELLS - filled)
            rows.append(f"{bar} {share:4.0%} {self._status.line()}")
        return Text("\n".join(rows), no_wrap=True, overflow="ellipsis")


class LoggedDisplay(Display):
    """All messages in a log file; progress and important messages on the screen, too.

    Args:
        screen: the display of the terminal.
        log: the file, opened for appending.
        redraws: whether the screen can redraw timings; otherwise it does not show them.
    """

    def __init__(self, screen: Display, log: TextIO, redraws: bool) -> None:
        self._screen, self._file, self._redraws = screen, log, redraws
        self._log = PlainDisplay(log)

    def note(self, text: str) -> None:
        """Write the message to the log."""
        self._log.note(text)

    def show(self, text: str) -> None:
        """Write the message to the log and show it."""
        self._log.note(text)
        self._screen.note(text)

    def update(self, status: Status) -> None:
        """Show the progress in both places."""
        self._log.update(status)
        self._screen.update(status)

    def draw(self, block: Sequence[str], line: str) -> None:
        """Write timings to the log; show them if they can be redrawn."""
        self._log.draw(block, line)
        if self._redraws:
            self._screen.draw(block, line)

    def close(self) -> None:
        """Close the log and the screen."""
        self._screen.close()
        self._file.close()


def open_display(
    is_main: bool, stream: TextIO | None = None, log: str | Path | None = None
) -> Display:
    """The display of a process: a bar on a terminal, lines elsewhere, nothing on other ranks.

    Args:
        is_main: whether this is the first process of a run.
        stream: None for standard output.
        log: file for all messages; the stream then shows only important ones.
    """
    stream = sys.stdout if stream is None else stream
    if not is_main:
        return Display()
    terminal = stream.isatty()
    if log is None:
        return TerminalDisplay(stream) if terminal else PlainDisplay(stream)
    screen: Display = PlainDisplay(stream, BRIEF_INTERVAL_S)
    if terminal:
        screen = TerminalDisplay(stream, transient=True)
    return LoggedDisplay(screen, Path(log).open("a", encoding="utf-8"), redraws=terminal)
