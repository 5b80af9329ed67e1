"""How a run ended: the file in which its first process tells the launcher, and the way out.

The launcher makes it in the run's folder, which the nodes of a run share, and holds a lock on it:
one without is left from a launcher that was killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NoReturn

from vrtspike.errors import RunError
from vrtspike.launching.signals import EXIT_INTERRUPTED
from vrtspike.locks import lock_file, require_lock_file

STATUS_FILE = "VRTSPIKE_STATUS_FILE"
"""Environment variable: where the first training process tells how far it came."""

_PREFIX = ".status-"
_BEGUN: Literal["begun"] = "begun"


@contextlib.contextmanager
def status_file(folder: Path) -> Iterator[Path]:
    """A file for one start of the run in ``folder``; it goes with the block.

    Raises:
        RunError: if a folder has the name of such a file, or the file system has no locks.
    """
    for left in folder.glob(f"{_PREFIX}*"):
        _remove_unless_held(left)
    descriptor, path = _create(folder)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def read_status(path: Path) -> int | Literal["begun"] | None:
    """The exit status in a status file; ``begun`` if there is none yet, None before training."""
    words = path.read_text(encoding="utf-8").split()
    if not words:
        return None
    return _BEGUN if words[-1] == _BEGUN else int(words[-1])


def report_begin() -> None:
    """Tell the launcher that all processes are there: from now on they heed requests to stop."""
    _tell(_BEGUN)


def report_status(status: int) -> int:
    """Tell the launcher how training ended; returns the exit status of this process.

    ``torchrun`` takes every status but 0 for a crash, prints a page about it and ends with 1. Under
    the launcher an ending that all processes share is therefore told through a file.
    """
    if STATUS_FILE not in os.environ:
        return status
    _tell(str(status))
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


def _tell(word: str) -> None:
    path = os.environ.get(STATUS_FILE)
    if path is None or process_number() != 0:
        return
    # Where the launcher was killed, the file may be gone: it shall not come back.
    with contextlib.suppress(FileNotFoundError), Path(path).open("r+", encoding="utf-8") as stream:
        stream.seek(0, os.SEEK_END)
        stream.write(f"{word}\n")


def _create(folder: Path) -> tuple[int, Path]:
    while True:
        descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
        path = Path(name)
        try:
            lock_file(descriptor, path, wait=True)
        except (RunError, OSError):
            os.close(descriptor)
            path.unlink()
            raise
        if path.exists():
            return descriptor, path
        # Another launcher found it before it was locked.
        os.close(descriptor)


def _remove_unless_held(path: Path) -> None:
    require_lock_file(path)
    with contextlib.suppress(FileNotFoundError), path.open("r+", encoding="utf-8") as stream:
        if lock_file(stream.fileno(), path):
            path.unlink()
