"""Helpers of tests with several processes: programs, waiting for events, ports, locks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def wait_until(happened: Callable[[], object], seconds: float = 800.0) -> None:
    """Wait until something has happened; it is an error if that takes too long."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.02)


def run_python(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python to its end; ``env`` has more variables than those of this process."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **options.pop("env", {})},
        capture_output=True,
        text=True,
        timeout=800,
        **options,
    )


def is_waited_for(path: Path) -> bool:
    """Return whether the kernel lists a process that waits for a lock on a file."""
    waiting = [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(f":{path.stat().st_ino} " in line for line in waiting)


@contextmanager
def free_port() -> Iterator[int]:
    """A port that nobody else is given within the block.

    It stays bound without listening; with SO_REUSEADDR on both sides, as PyTorch's stores have it,
    Linux lets one other socket listen there, but hands the port to nobody who asks for any.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
