"""How the worker processes of a data loader meet signals and the end of their parent."""

from __future__ import annotations

import atexit
import multiprocessing
import signal
from functools import cache


def leave_signals_to_the_parent(worker: int) -> None:
    """Begin a worker: a signal for the whole process group shall not end it under a trainer that
    saves, which still waits for its batches.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


@cache
def end_workers_at_exit() -> None:
    """See that a parent which ends with an error does not wait for its workers for ever.

    Python asks the processes that are left by SIGTERM, which workers ignore, and waits. What is
    registered last runs first, so this is over before.
    """
    atexit.register(_end_workers)


def _end_workers() -> None:
    for process in multiprocessing.active_children():
        # They only read; nothing of theirs can be half done.
        process.kill()
