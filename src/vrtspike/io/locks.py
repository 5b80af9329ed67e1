"""File locks (``flock``), which end with the process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil

from vrtspike.system.errors import RunError

_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
"""Errors of ``flock`` on a file system without locks, such as Lustre mounted without them."""

_ADVICE = "put the run on another one (RUNS in config/config.yaml, --run-dir of train.py)"


def lock_file(descriptor: int, path: Path, *, wait: bool = False, advice: str = _ADVICE) -> bool:
    """Lock an open file against other processes.

    Args:
        descriptor: descriptor of the file; the lock ends when its last copy is closed.
        path: path of the file, for the message.
        wait: true to wait for a process that holds the lock.
        advice: the remedy if the file system cannot be mounted with locks.

    Returns:
        False if another process holds the lock.

    Raises:
        RunError: if the file system has no locks.
    """
    operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        fcntl.flock(descriptor, operation)
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
def locked(path: Path) -> Iterator[None]:
    """Wait for other processes, then hold a lock for the duration of the body.

    Args:
        path: path of the lock file, which is created with its folder and kept.

    Raises:
        RunError: if the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        lock_file(stream.fileno(), path, wait=True)
        yield


def describe_process() -> str:
    """Describe this process in messages to others: Slurm job, process ID, user and host."""
    where = f"process {os.getpid()} of {psutil.Process().username()} on {socket.gethostname()}"
    job = os.environ.get("SLURM_JOB_ID")
    return f"Slurm job {job} ({where})" if job else where
