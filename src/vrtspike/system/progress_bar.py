"""Progress bars on terminals and in notebooks, lines elsewhere; formatting of durations."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from html import escape
from typing import TextIO, TypeAlias

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Function called with the number of finished items and their total."""

OpenProgress: TypeAlias = Callable[[str], AbstractContextManager[ProgressCallback]]
"""Function that opens a progress display with a title, such as :func:`progress_bar`."""

PLAIN_INTERVAL = 15.0
"""Minimum seconds between lines if there is no terminal, such as in a log file."""

_PLAIN_SHARE = 0.05
"""Interval between two lines, as a share of the elapsed time: a day's work prints about 130
lines."""

_NOTEBOOK_INTERVAL = 0.25
"""Minimum seconds between two drawings of a bar in a notebook."""

_ESTIMATE_PERIOD_S = 1e9
"""Period of the estimate of the remaining time: the whole run, because frames come in windows."""

SCREEN_VARIABLE = "VRTSPIKE_SCREEN"
"""Environment variable: file descriptor for progress bars if standard error is a log file.

In a shell: ``VRTSPIKE_SCREEN=3 program 3>&2 > log 2>&1``.
"""


def format_duration(seconds: float) -> str:
    """Return a duration as ``1:02:03`` or ``2:03``.

    >>> format_duration(125.4), format_duration(3723)
    ('2:05', '1:02:03')
    """
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def duration_words(seconds: float) -> str:
    """Return a duration in s, min or h, for sentences.

    >>> duration_words(42), duration_words(2700), duration_words(7000), duration_words(400000)
    ('42 s', '45.0 min', '1.94 h', '111 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.3g} h"


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[ProgressCallback]:
    """Show progress on standard error or on :data:`SCREEN_VARIABLE` while the body runs.

    In a notebook it is a bar in the cell's output, which stays as the body has left it.

    Args:
        title: title of the bar.

    Yields:
        a function to call after each item.
    """
    # Imported here, so that models need only PyTorch.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    stream = _screen()
    console = Console(file=stream)
    if console.is_jupyter:
        yield _notebook_bar(title)
        return
    if not console.is_terminal:
        yield _plain(title, stream)
        return
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Other output is printed above a bar on the same stream.
    is_standard_error = stream is sys.stderr
    with Progress(
        *columns,
        console=console,
        transient=True,
        refresh_per_second=4,
        speed_estimate_period=_ESTIMATE_PERIOD_S,
        redirect_stdout=is_standard_error,
        redirect_stderr=is_standard_error,
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _notebook_bar(title: str) -> ProgressCallback:
    """Return a function that draws a bar in a notebook, over the last one.

    Rich draws in a widget, which takes what the cell prints meanwhile with it.
    """
    from IPython.display import display

    started = time.monotonic()
    last = started
    drawing = display({"text/plain": title}, raw=True, display_id=True)

    def show(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _NOTEBOOK_INTERVAL and done < total:
            return
        last = now
        line = _line(title, done, total, now - started)
        bar = f'<progress value="{done}" max="{total}"></progress> {escape(line)}'
        drawing.update({"text/plain": line, "text/html": bar}, raw=True)

    return show


@cache
def take_screen() -> int | None:
    """Take the descriptor in :data:`SCREEN_VARIABLE`, which is removed; None if it is not open.

    A program calls this before it opens a file, which might get the number of a closed screen.
    Processes that it starts do not inherit the descriptor, and therefore not the variable either.
    """
    number = os.environ.pop(SCREEN_VARIABLE, "")
    if not number.isdigit():
        return None
    try:
        os.fstat(int(number))
    except OSError:
        return None
    return int(number)


def _screen() -> TextIO:
    descriptor = take_screen()
    return sys.stderr if descriptor is None else os.fdopen(descriptor, "w", closefd=False)


def _plain(title: str, stream: TextIO) -> ProgressCallback:
    """Return a function that prints a line now and then, with the remaining time."""
    started = time.monotonic()
    last = started

    def show(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < max(PLAIN_INTERVAL, _PLAIN_SHARE * (now - started)):
            return
        last = now
        print(_line(title, done, total, now - started), file=stream, flush=True)

    return show


def _line(title: str, done: int, total: int, elapsed_s: float) -> str:
    """Return a line of progress with the remaining time.

    >>> _line("evaluate", 2, 100, 20.0)
    'evaluate: 2 of 100, 16:20 left'
    """
    left = ""
    if 0 < done < total:
        left = f", {format_duration(elapsed_s / done * (total - done))} left"
    return f"{title}: {done} of {total}{left}"
