"""What a launcher and its training processes tell each other: requests to stop, and the ending.

Signals ask a run to stop. How it ended its first process tells in a file, which the launcher makes
in the folder of the run, because the nodes of a run share that.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn, Self

from vrtspike.system.endings import is_ignored

EXIT_INTERRUPTED = 75
"""Exit status of a run that was asked to stop and has saved its state (EX_TEMPFAIL): continue."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
"""Signals that ask a run to stop; SIGHUP, when the terminal is closed, unless it is ignored."""

LAUNCHER_DIED = signal.SIGUSR2
"""Tells ``torchrun``, and through it the training processes, that the launcher has died."""

HANDLED_SIGNALS = (*STOP_SIGNALS, LAUNCHER_DIED)
"""Signals at which a training process ends its step, saves and leaves."""


class StopRequest:
    """Notes the signals that ask to stop; the loop looks between two steps.

    Within the ``with`` block the signals do nothing else; a step is never cut in half.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._previous = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start listening."""
        for number in handled_signals():
            self._previous.callback(signal.signal, number, signal.signal(number, self._note))
        return self

    def __exit__(self, *error: object) -> None:
        """Give the signals back to whom they belonged."""
        self._previous.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name


def handled_signals() -> list[signal.Signals]:
    """:data:`HANDLED_SIGNALS` without SIGHUP where it is ignored, as by ``nohup``."""
    ignored = {signal.SIGHUP} if is_ignored(signal.SIGHUP) else set()
    return [number for number in HANDLED_SIGNALS if number not in ignored]


def ignore(numbers: Iterable[signal.Signals]) -> None:
    """Have signals do nothing to this process, nor to its children until they handle them."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def block(numbers: Iterable[signal.Signals]) -> None:
    """Have signals wait, for this process and its children, until they :func:`restore_stops`.

    Unlike an ignored signal, one that comes while a child still starts is not lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def restore_stops() -> None:
    """Undo a parent's :func:`ignore` or :func:`block` of :data:`STOP_SIGNALS`."""
    for number in STOP_SIGNALS:
        if number is not signal.SIGHUP or not is_ignored(number):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


STATUS_FILE = "VRTSPIKE_STATUS_FILE"
"""Environment variable: where the first training process tells how far it came."""

_PREFIX = ".status-"
_STARTED: Literal["begun"] = "begun"


@contextlib.contextmanager
def status_file(folder: Path) -> Iterator[Path]:
    """A file for one start of the run in ``folder``, by its one launcher; it goes with the block.

    Those of launchers that were killed are removed: what their processes still tell is lost.
    """
    for left in folder.glob(f"{_PREFIX}*"):
        left.unlink()
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def read_status(path: Path) -> int | Literal["begun"] | None:
    """The exit status in a status file; ``begun`` if there is none yet, None before training."""
    words = path.read_text(encoding="utf-8").split()
    if not words:
        return None
    return _STARTED if words[-1] == _STARTED else int(words[-1])


def report_start() -> None:
    """Tell the launcher that all processes are there: from now on they handle requests to stop."""
    _write_status(_STARTED)


def report_status(status: int) -> int:
    """Tell the launcher how training ended; returns the exit status of this process.

    ``torchrun`` takes every status but 0 for a crash, prints a page about it and ends with 1. Under
    the launcher an ending that all processes share is therefore told through a file.
    """
    if STATUS_FILE not in os.environ:
        return status
    _write_status(str(status))
    shared = status in (0, EXIT_INTERRUPTED) or os.environ.get("WORLD_SIZE", "1") == "1"
    return 0 if shared else status


def leave(status: int | None) -> NoReturn:
    """End a training process with this status, without taking the interpreter apart.

    DistributedDataParallel keeps the threads of its process group alive, also when the group has
    been destroyed. One that has still to put away the last exchange asks for the interpreter while
    that is being dismantled, and before Python 3.14 this aborts the process: a finished run would
    end as a crash. Registered functions run and output is written as at any other end.

    Args:
        status: the exit status; None is 0.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


def process_number() -> int:
    """The rank of this process among those of the run."""
    return int(os.environ.get("RANK", "0"))


def _write_status(word: str) -> None:
    path = os.environ.get(STATUS_FILE)
    if path is None or process_number() != 0:
        return
    # Where the launcher was killed, the file may be gone: it shall not come back.
    with contextlib.suppress(FileNotFoundError), Path(path).open("r+", encoding="utf-8") as stream:
        stream.seek(0, os.SEEK_END)
        stream.write(f"{word}\n")
