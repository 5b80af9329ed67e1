"""File locks (``flock``), which end with the process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from vrtspike.errors import RunError

_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
"""Errors of ``flock`` on a file system without locks, such as Lustre mounted without them."""

_LOCKS = Path("/proc/locks")
"""All locks of this machine (Linux)."""

_ADVICE = "put the run on another one (RUNS in config/config.yaml, --run-dir of train.py)"


def lock_file(
    descriptor: int,
    path: Path,
    *,
    wait: bool = False,
    advice: str = _ADVICE,
) -> bool:
    """Lock an open file against other processes.

    Args:
        descriptor: of the file; the lock ends when its last copy is closed.
        path: of the file, for the message.
        wait: whether to wait for a process that holds the lock.
        advice: what to do if the file system cannot be mounted with locks.

    Returns:
        False if another process holds the lock.

    Raises:
        RunError: if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        raise RunError(
            f"{path}: the file system has no locks ({os.strerror(error.errno)}), which keep two "
            "processes from one run or device; mount it with the option flock (localflock keeps "
            f"away processes of the same machine only), or {advice}, and run again"
        ) from error
    return True


@contextlib.contextmanager
def locked(path: Path, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock for the duration of the body; waits for other processes first.

    Args:
        path: of the lock file, which is created with its folder and kept.
        wait: called before waiting.

    Raises:
        RunError: if the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not lock_file(descriptor, path):
            wait()
            lock_file(descriptor, path, wait=True)
        yield
    finally:
        os.close(descriptor)


def lock_holders(path: Path) -> list[int]:
    """Process IDs of the holders of a file's lock; empty if they are unknown.

    For an inherited lock it is the process that took it, which may have ended.
    """
    try:
        state = path.stat()
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    rows = [line.split() for line in lines if "->" not in line]
    return [int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == place]
