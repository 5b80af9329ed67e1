"""Locks on open files: they end with the last process that holds them, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from vrtspike.errors import RunError

_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
"""What ``flock`` answers on a file system without locks, such as Lustre mounted without them."""

_ELSEWHERE = "put the run on another one (RUNS in config/config.yaml, --run-dir of train.py)"


def require_lock_file(path: Path) -> None:
    """Refuse something else than a file where a lock's file stands or shall be made.

    Raises:
        RunError: naming what was found.
    """
    if path.exists() and not path.is_file():
        found = "a folder" if path.is_dir() else "something that is no file"
        raise RunError(
            f"{path}: found {found}, expected a lock file, which is made where there is none; "
            "remove or rename it, and run again"
        )


def lock_file(
    descriptor: int, path: Path, *, wait: bool = False, elsewhere: str = _ELSEWHERE
) -> bool:
    """Lock an open file against other processes.

    Args:
        descriptor: of the file; the lock ends when its last copy is closed.
        path: of the file, for the message.
        wait: whether to wait for a process that holds it.
        elsewhere: what to do where the file system cannot be mounted with locks.

    Returns:
        False if another process holds it.

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
            f"away processes of the same machine only), or {elsewhere}, and run again"
        ) from error
    return True
