"""Small disks of their own, to be filled."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 1 << 16
_LOOK_S = 0.002


def missing() -> str | None:
    """Why no disk can be mounted here; None if one can."""
    if os.getuid() != 0:
        return "needs root: a small disk is mounted"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(_mount(Path(folder), 1), capture_output=True, text=True)
        if done.returncode:
            return f"needs the right to mount: {done.stderr.strip()}"
        subprocess.run(["umount", folder], check=True)
    return None


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A disk in memory at an empty folder; it goes with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(_mount(folder, megabytes), check=True)
    try:
        yield
    finally:
        # Lazily: what still looks at it does not keep a test from ending.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """Let the disk of a folder be full within the block, also where files are removed meanwhile."""
    ballast = folder / "ballast"
    stopped = threading.Event()
    with ballast.open("ab", buffering=0) as stream:
        _fill(stream.fileno())

        def go_on() -> None:
            while not stopped.wait(_LOOK_S):
                _fill(stream.fileno())

        filler = threading.Thread(target=go_on)
        filler.start()
        try:
            yield
        finally:
            stopped.set()
            filler.join()
    ballast.unlink()


def _mount(folder: Path, megabytes: int) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]


def _fill(descriptor: int) -> None:
    size = _BLOCK
    while size:
        try:
            os.write(descriptor, bytes(size))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            size //= 16
