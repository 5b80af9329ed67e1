"""Signals that stop a training, and the file in which it reports its status to the launcher.

The status file is in the run's folder, which the nodes of a run share.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn, Self

from vrtspike.system.termination import is_ignored

EXIT_RESUMABLE = 75
"""Exit status of a run that was stopped and has saved its state (EX_TEMPFAIL)."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
"""Signals that stop a run."""

LAUNCHER_DIED = signal.SIGUSR2
"""Signal to ``torchrun``, which forwards it to the training processes: the launcher has died."""

HANDLED_SIGNALS = (*STOP_SIGNALS, LAUNCHER_DIED)
"""Signals after which a training process finishes its step, saves and exits."""


class StopRequest:
    """Record of the signals that stop a run; the training loop checks it between steps."""

    def __init__(self) -> None:
        self.received: str | None = None
        self._handlers = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Install the signal handlers."""
        self._handlers.enter_context(signal_handlers(HANDLED_SIGNALS, self._note))
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous signal handlers."""
        self._handlers.close()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(signum).name


@contextlib.contextmanager
def signal_handlers(
    signals: Iterable[signal.Signals],
    handler: Callable[[int, FrameType | None], object] | signal.Handlers,
) -> Iterator[None]:
    """Handle signals in the body; SIGHUP stays ignored if it is, as under ``nohup``."""
    with contextlib.ExitStack() as previous:
        for signum in signals:
            if signum is not signal.SIGHUP or not is_ignored(signum):
                previous.callback(signal.signal, signum, signal.signal(signum, handler))
        yield


def ignore_signals(signals: Iterable[signal.Signals]) -> None:
    """Ignore signals in this process and the processes that it starts."""
    for signum in signals:
        signal.signal(signum, signal.SIG_IGN)


def block_signals(signals: Iterable[signal.Signals]) -> None:
    """Block signals in this process and its children until they call :func:`restore_stop_signals`.

    Unlike an ignored signal, one that arrives while a child starts is not lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def restore_stop_signals() -> None:
    """Undo :func:`ignore_signals` or :func:`block_signals` of a parent for :data:`STOP_SIGNALS`."""
    for signum in STOP_SIGNALS:
        if signum is not signal.SIGHUP or not is_ignored(signum):
            signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


STATUS_FILE_VARIABLE = "VRTSPIKE_STATUS_FILE"
"""Environment variable: the file to which the first training process writes its status."""

_PREFIX = ".status-"
_STARTED: Literal["begun"] = "begun"


@contextlib.contextmanager
def status_file(folder: Path) -> Iterator[Path]:
    """Yield a status file for one start of the run in ``folder``, removed when the block is left.

    Files of launchers that were killed are removed first.
    """
    for left in folder.glob(f"{_PREFIX}*"):
        left.unlink()
    with tempfile.NamedTemporaryFile(prefix=_PREFIX, dir=folder) as stream:
        yield Path(stream.name)


def read_status(path: Path) -> int | Literal["begun"] | None:
    """Read the exit status in a status file; ``begun`` during training, None before it."""
    word = path.read_text(encoding="utf-8")
    if not word:
        return None
    if word == _STARTED:
        return _STARTED
    return int(word)


def report_start() -> None:
    """Report to the launcher that the processes handle stop signals from now on."""
    _write_status(_STARTED)


def report_status(status: int) -> int:
    """Report the status to the launcher, and return the exit status of this process.

    ``torchrun`` reports every status but 0 as a crash and ends with 1. Under the launcher, a status
    that all processes share is therefore reported in the status file.
    """
    if STATUS_FILE_VARIABLE not in os.environ:
        return status
    _write_status(str(status))
    shared = status in (0, EXIT_RESUMABLE) or os.environ.get("WORLD_SIZE", "1") == "1"
    return 0 if shared else status


def exit_process(status: int | None) -> NoReturn:
    """Exit a training process without finalising the interpreter.

    Threads of DistributedDataParallel survive the process group. Before Python 3.14, such a thread
    aborts the process if it needs the interpreter while this is being finalised: a finished run
    would end as a crash. Functions registered with ``atexit`` run, and output is flushed.

    Args:
        status: the exit status; None is 0.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


def process_rank() -> int:
    """Return the rank of this process in the run."""
    return int(os.environ.get("RANK", "0"))


def _write_status(word: str) -> None:
    path = os.environ.get(STATUS_FILE_VARIABLE)
    if path is None or process_rank() != 0:
        return
    # If the launcher was killed, the file may have been removed; do not create it again.
    with contextlib.suppress(FileNotFoundError), Path(path).open("r+", encoding="utf-8") as stream:
        stream.write(word)
        stream.truncate()
