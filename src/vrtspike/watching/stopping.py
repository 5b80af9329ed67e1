"""Requests to stop that only Snakemake receives, handed on to the programs of its jobs.

Ctrl-C reaches all processes of a terminal. A signal to Snakemake alone (``kill``, a batch system
that asks the first process of a job) would let it wait for its jobs, be it for days.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from types import FrameType

import psutil

from vrtspike.endings import is_ignored

GRACE_S = 3.0
"""After SIGINT: what the terminal has asked to stop is asked a second time only after this."""

_HANDED_ON = frozenset({signal.SIGTERM, signal.SIGINT})


def hand_on_stops() -> None:
    """From now on ask the programs of the jobs to stop when this Snakemake is asked to.

    Closing the terminal asks to stop, too. Call it in the main thread.
    """
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    # Python writes the numbers of all signals that it handles, whoever has set the handler: that is
    # Snakemake, later.
    signal.set_wakeup_fd(writing.detach())
    if not is_ignored(signal.SIGHUP):
        signal.signal(signal.SIGHUP, _stop_by_terminal)
    threading.Thread(target=_listen, args=(reading,), daemon=True, name="hand_on_stops").start()


def _stop_by_terminal(number: int, frame: FrameType | None) -> None:
    """Without its terminal Snakemake would die at once, and leave its jobs to themselves."""
    os.kill(os.getpid(), signal.SIGTERM)


def _listen(requests: socket.socket) -> None:
    while numbers := requests.recv(64):
        if _HANDED_ON.isdisjoint(numbers):
            continue
        if signal.SIGTERM not in numbers:
            time.sleep(GRACE_S)
        ask_programs(psutil.Process())


def ask_programs(snakemake: psutil.Process) -> None:
    """Send SIGTERM to the programs that the shells of this process run.

    Args:
        snakemake: their starter.
    """
    for shell in snakemake.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            # A shell that has one thing to do becomes it.
            for program in shell.children() or [shell]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    program.terminate()
