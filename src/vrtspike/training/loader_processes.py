"""How the worker processes of a data loader meet signals and the end of their parent."""

from __future__ import annotations

import atexit
import multiprocessing
import signal
import threading
from collections.abc import Sequence
from functools import cache
from multiprocessing import forkserver

from vrtspike.endings import end_with
from vrtspike.launching.signals import HEEDED, ignore


def start_server(modules: Sequence[str]) -> None:
    """Start the process that makes the workers; it has read these modules once for all of them.

    Signals for the whole process group (a batch system sends such) shall not end it, nor the
    workers: a trainer that was asked to stop still waits for the batches of its step. What a
    process ignores, the processes that it starts ignore as well.
    """
    multiprocessing.set_forkserver_preload(list(modules))
    _end_workers_at_exit()
    if threading.current_thread() is not threading.main_thread():
        # Handlers can only be changed by the main thread, in which training runs.
        forkserver.ensure_running()
        return
    previous = {number: signal.getsignal(number) for number in HEEDED}
    ignore(HEEDED)
    try:
        forkserver.ensure_running()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def begin_worker(worker: int) -> None:
    """Begin a worker: signals are its parent's business, whoever started the server.

    When the parent has been killed, PyTorch's workers end only if nobody has still to take a batch
    of theirs, and the server with the last of them.
    """
    ignore(HEEDED)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        end_with(parent.pid, signal.SIGKILL)


@cache
def _end_workers_at_exit() -> None:
    """See that a parent which ends with an error does not wait for its workers for ever.

    Python asks the processes that are left by SIGTERM, which workers ignore, and waits. What is
    registered last runs first, so this is over before.
    """
    atexit.register(_end_workers)


def _end_workers() -> None:
    for process in multiprocessing.active_children():
        # They only read; nothing of theirs can be half done.
        process.kill()
