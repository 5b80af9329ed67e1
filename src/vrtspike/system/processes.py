"""Child processes that do not outlive their parent, and work spread over some of them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from vrtspike.errors import RunError
from vrtspike.system.endings import describe_status, end_with, exit_on_signals

_PR_SET_PDEATHSIG = 1
_TERMINATE_TIMEOUT_S = 5.0
"""How long a child that is asked to end may take to remove what it has half written."""

Outcome = tuple[str, Any]
"""A thing and what became of it: what the work returned, or the exception that it raised."""


def stop_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send a signal to this process when its parent dies (Linux only).

    Without it a killed launcher leaves processes behind that hold the run's lock and a device.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def for_each(
    work: Callable[[str], Any], items: Iterable[str], processes: int, *, fresh: bool = False
) -> Generator[Outcome, None, None]:
    """Do some work on each thing, in several processes, and yield each as it is done.

    A single thing, and a single process, need no others: the work is done in this one. Children
    end when this process ends, however it does, and when the iteration is left.

    Args:
        work: what to do; a function that can be pickled.
        items: named by texts.
        processes: at most so many.
        fresh: start new interpreters instead of copies of this process, whose threads and CUDA
            context a copy could not use.

    Yields:
        The thing and what the work returned; where it raised an exception, that.

    Raises:
        RunError: if a process is killed.
    """
    waiting = list(items)
    if not waiting:
        return
    if min(processes, len(waiting)) <= 1:
        for item in waiting:
            try:
                outcome = work(item)
            except Exception as error:  # the caller decides
                outcome = error
            yield item, outcome
    else:
        yield from _run_in_pool(work, waiting, min(processes, len(waiting)), fresh)


def _run_in_pool(
    work: Callable[[str], Any], items: Sequence[str], processes: int, fresh: bool
) -> Iterator[Outcome]:
    # A forked child has all modules at once; this process has no threads that could be in the way,
    # or the caller asks for fresh ones.
    forks = sys.platform == "linux" and not fresh
    context = multiprocessing.get_context("fork" if forks else "spawn")
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(processes, context, _init_child, (os.getpid(),))
    left = {executor.submit(_call, work, item): item for item in items}
    children = set(multiprocessing.active_children()) - others
    try:
        for future in as_completed(left):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                executor.shutdown()  # its thread ends the other children and asks how each ended
                raise _killed_error(left, [child.exitcode or 0 for child in children]) from error
            yield left.pop(future), error or future.result()
    finally:
        for child in children:
            child.terminate()
        executor.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.join(_TERMINATE_TIMEOUT_S)
            child.kill()
            child.join()


def _killed_error(left: dict[Future[Any], str], statuses: Sequence[int]) -> RunError:
    """What to tell of a process that was killed; the executor ends the others by SIGTERM."""
    status = next((s for s in statuses if s < 0 and s != -signal.SIGTERM), -signal.SIGTERM)
    return RunError(
        f"a process {describe_status(status)} ({len(left)} left to do, the first is "
        f"{next(iter(left.values()))}); what is done stays done. Give the job more memory or fewer "
        "cores, and run again"
    )


def _init_child(parent: int) -> None:
    """Begin a child's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, too, which ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)


def _call(work: Callable[[str], Any], item: str) -> Any:  # noqa: ANN401 - whatever it returns
    # Only what works has something to remove; anywhere else the executor would catch the signal.
    exit_on_signals()
    try:
        return work(item)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # of some library: what matters of it is its text
            raise RuntimeError("".join(traceback.format_exception(error))) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
