"""Child processes that end with their parent, and a process pool."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from vrtspike.system.errors import RunError
from vrtspike.system.termination import exit_on_signals, exit_with_process

_PR_SET_PDEATHSIG = 1
_TERMINATE_TIMEOUT_S = 5.0
"""Seconds in which a terminated child must remove its temporary files."""


def stop_with_parent(signum: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send a signal to this process when its parent dies (Linux only).

    Otherwise, after a killed launcher, its processes would keep the run's lock and a GPU.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)


def map_unordered(
    work: Callable[[str], Any], items: Sequence[str], processes: int
) -> Generator[tuple[str, Any], None, None]:
    """Call ``work`` for each item in several processes, and yield results as they are done.

    The processes end with this process, and with the iteration.

    Args:
        work: a function that can be pickled.
        items: names of the items.
        processes: largest number of processes.

    Yields:
        The item, and the return value or the exception of its work.

    Raises:
        RunError: if a process is killed.
    """
    if not items:
        return
    # Forked children need not import modules; the caller has at most the thread of
    # exit_with_process, which waits and holds nothing.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    others = set(multiprocessing.active_children())
    processes = min(processes, len(items))
    executor = ProcessPoolExecutor(processes, context, _init_child, (os.getpid(),))
    left = {executor.submit(_call, work, item): item for item in items}
    children = set(multiprocessing.active_children()) - others
    try:
        for future in as_completed(left):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                raise RunError(
                    f"a process was killed, as when memory is full ({len(left)} left to do, the "
                    f"first is {next(iter(left.values()))}); finished ones are kept. Give the job "
                    "more memory or fewer cores, and run again"
                ) from error
            yield left.pop(future), error or future.result()
    finally:
        for child in children:
            child.terminate()
        executor.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.join(_TERMINATE_TIMEOUT_S)
            child.kill()
            child.join()


def _init_child(parent: int) -> None:
    """Initialise a child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the child
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    exit_with_process(parent)


def _call(work: Callable[[str], Any], item: str) -> Any:  # noqa: ANN401 - whatever it returns
    # Signals raise only from here on, because before the executor would catch the exception.
    exit_on_signals()
    try:
        return work(item)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # the error cannot be pickled
            raise RuntimeError("".join(traceback.format_exception(error))) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
