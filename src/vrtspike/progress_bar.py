"""Progress of long work: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_INTERVAL = 15.0
"""Seconds between lines where there is no terminal, such as in a log file."""


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress on standard error while the body runs.

    Args:
        title: what is being done.

    Yields:
        A function to call with the number of things done and their total.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain(title)
        return
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain(title: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PLAIN_INTERVAL:
            last = now
            print(f"{title}: {done} of {total}", file=sys.stderr, flush=True)

    return show
