"""Child processes that do not outlive their parent, and work spread over some of them."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from vrtspike.endings import end_in_order, tell_end
from vrtspike.errors import RunError

_PR_SET_PDEATHSIG = 1
_PATIENCE_S = 5.0
"""How long a child that is asked to end may take to remove what it has half written."""
_LOOK_S = 1.0
"""How often a child that waits for its next thing looks whether its parent lives."""

Outcome = tuple[str, Any]
"""A thing and what became of it: what the work returned, or the exception that it raised."""


def stop_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send a signal to this process when its parent dies (Linux only).

    Without it a killed launcher leaves processes behind that hold the run's lock and a device.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def for_each(
    work: Callable[[str], Any], things: Iterable[str], processes: int
) -> Generator[Outcome, None, None]:
    """Do some work on each thing, in several processes, and yield each as it is done.

    A single thing, and a single process, need no others: the work is done in this one. Children
    end when this process ends, however it does, and when the iteration is left.

    Args:
        work: what to do; a function that can be pickled.
        things: named by texts.
        processes: at most so many.

    Yields:
        The thing and what the work returned; where it raised an exception, that.

    Raises:
        RunError: if a process is killed.
    """
    waiting = list(things)
    if not waiting:
        return
    if min(processes, len(waiting)) <= 1:
        for thing in waiting:
            yield thing, _result(work, thing)
    else:
        yield from _spread(work, waiting, min(processes, len(waiting)))


def _result(work: Callable[[str], Any], thing: str) -> Any:  # noqa: ANN401 - whatever it returns
    try:
        return work(thing)
    except Exception as error:  # the caller decides
        return error


@dataclass
class _Child:
    """A process and the way to it."""

    process: BaseProcess
    connection: Connection
    thing: str = ""

    def give(self, thing: str) -> None:
        self.thing = thing
        # A process that was killed since its last thing is met by `take`, which tells it.
        with contextlib.suppress(ConnectionError):
            self.connection.send(thing)

    def take(self) -> Any:  # noqa: ANN401 - whatever the work returns
        """What came of the thing.

        Raises:
            RunError: if the process is gone.
        """
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError) as error:
            self.process.join()
            raise RunError(
                f"{self.thing}: the process that worked on it {_end(self.process.exitcode)}; what "
                "is done stays done. Give the job more memory or fewer cores, and run again"
            ) from error


def _end(status: int | None) -> str:
    return f"ended with status {status}" if status is None or status >= 0 else tell_end(-status)


def _spread(work: Callable[[str], Any], things: Sequence[str], processes: int) -> Iterator[Outcome]:
    # A forked child has all modules at once; this process has no threads that could be in the way.
    methods = multiprocessing.get_all_start_methods()
    method = "fork" if sys.platform == "linux" and "fork" in methods else "spawn"
    context = multiprocessing.get_context(method)
    children: list[_Child] = []
    try:
        for _ in range(processes):
            children.append(_start(context, work))
        left = iter(things)
        busy = {child.connection: child for child in children}
        for child, thing in zip(children, left, strict=False):
            child.give(thing)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                child = busy[ready]
                thing, outcome = child.thing, child.take()
                following = next(left, None)
                if following is None:
                    del busy[ready]
                else:
                    child.give(following)
                yield thing, outcome
    finally:
        _end_all(children)


def _start(context: BaseContext, work: Callable[[str], Any]) -> _Child:
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs, os.getpid()), daemon=True)  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    return _Child(process, ours)


def _serve(work: Callable[[str], Any], connection: Connection, parent: int) -> None:
    """A child's life: one thing after the other until it is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, too, which ends us
    end_in_order()
    stop_with_parent()
    status = 0
    try:
        # Not by the signal alone: a library's thread may take it, which wakes nobody here. Nor by
        # the pipe's end: siblings hold it, too.
        while os.getppid() == parent:
            if connection.poll(_LOOK_S):
                connection.send_bytes(_result_to_send(work, connection.recv()))
    except (EOFError, ConnectionError):
        pass  # the parent is gone or has nothing more
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        # Not the interpreter's own end, which waits for threads of libraries.
        sys.stdout.flush()
        os._exit(status)


def _result_to_send(work: Callable[[str], Any], thing: str) -> bytes:
    outcome = _result(work, thing)
    if isinstance(outcome, Exception):
        outcome.add_note("".join(traceback.format_exception(outcome)))
    try:
        contents = pickle.dumps(outcome)
        pickle.loads(contents)
    except Exception:  # of some library: what matters of it is its text
        contents = pickle.dumps(RuntimeError("".join(traceback.format_exception(outcome))))
    return contents


def _end_all(children: Sequence[_Child]) -> None:
    for child in children:
        child.process.terminate()
        child.connection.close()
    for child in children:
        child.process.join(_PATIENCE_S)
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
