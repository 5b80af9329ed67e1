"""Termination of programs: on a signal, or when the process they serve has exited.

On a signal a program removes its temporary files (:func:`exit_on_signals`). A job exits when its
Snakemake has died, however many shells are in between (:func:`exit_with_snakemake`). Snakemake
waits for its jobs after Ctrl-C, however often that is pressed (:func:`interrupt_once`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

SNAKEMAKE_PROCESS_VARIABLE = "VRTSPIKE_SNAKEMAKE"
"""Environment variable: :func:`process_identity` of the Snakemake whose job this is."""

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_START_TIME = 19
"""Index of the start time among the fields of ``/proc/<pid>/stat`` after the program's name."""


class TerminatedBySignal(SystemExit):
    """Request of a signal to exit; the exit status is 128 plus its number, as in a shell."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.name = signal.Signals(signum).name


def is_ignored(signum: signal.Signals) -> bool:
    """Return whether this process ignores a signal, as SIGHUP under ``nohup``."""
    return signal.getsignal(signum) is signal.SIG_IGN


def describe_exit_status(status: int) -> str:
    """Describe the ending of a program by its exit status in Python or in a shell.

    >>> describe_exit_status(2), describe_exit_status(-15), describe_exit_status(255)
    ('ended with status 2', 'was ended by SIGTERM', 'ended with status 255')
    >>> describe_exit_status(-9) == describe_exit_status(137)
    True
    """
    signum = -status if status < 0 else status - 128
    if signum not in {*signal.Signals}:
        return f"ended with status {status}"
    cause = ", as when memory is full" if signum == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(signum).name}{cause}"


def exit_on_signals() -> None:
    """Have SIGTERM and SIGHUP raise :class:`TerminatedBySignal`."""
    for signum in _ENDING:
        if not is_ignored(signum):
            signal.signal(signum, _leave)


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    # A second signal must not interrupt the removal of temporary files.
    for other in (*_ENDING, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    raise TerminatedBySignal(signum)


def interrupt_once() -> None:
    """Have the first SIGINT raise KeyboardInterrupt, and later ones only print a message.

    A second exception would abort Snakemake's shutdown before its jobs have finished.
    """
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, _ask_for_patience)
    raise KeyboardInterrupt


def _ask_for_patience(signum: int, frame: FrameType | None) -> None:
    write_from_signal_handler("stopping: running jobs save what they have and end; please wait")


def write_from_signal_handler(text: str) -> None:
    """Write a line to standard error, if that is open, in a handler of a signal.

    The handler may have interrupted a ``print``, which another one must not enter.
    """
    if sys.stderr is not None:  # None: closed when Python began
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"{text}\n".encode())


def process_identity(pid: int | None = None) -> str | None:
    """Return an identity of a process that is unique on all machines; None without ``/proc``.

    Args:
        pid: process ID; None for this process.

    Returns:
        boot ID of the machine, PID namespace, process ID and start time, separated by spaces.
    """
    pid = os.getpid() if pid is None else pid
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # The program's name may contain spaces and brackets, and end within a character.
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2]
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    return f"{boot} {space} {pid} {fields.split()[_START_TIME]}"


def is_running(identity: str) -> bool | None:
    """Return whether a process of a :func:`process_identity` runs; None on another machine."""
    boot, namespace, pid, _ = identity.split()
    this_process = process_identity()
    if this_process is None or this_process.split()[:2] != [boot, namespace]:
        return None
    return process_identity(int(pid)) == identity


def exit_with_process(pid: int, ending: signal.Signals = signal.SIGTERM) -> None:
    """Send this process a signal when another process of this machine has ended (Linux only).

    The other process need not be the parent, as for the kernel's own signal (PR_SET_PDEATHSIG).

    Args:
        pid: ID of the other process.
        ending: the signal; SIGKILL if nothing has to be cleaned up.
    """
    if not hasattr(os, "pidfd_open"):
        return
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        os.kill(os.getpid(), ending)
        return
    except OSError:  # the kernel is older than Linux 5.3
        return
    thread = threading.Thread(
        target=_wait, args=(process, ending), daemon=True, name="exit_with_process"
    )
    # The thread inherits the blocked signals; one that it received would not wake the main thread.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(process: int, ending: signal.Signals) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    if ending is signal.SIGKILL:
        os.kill(os.getpid(), ending)
    main = threading.main_thread().ident
    assert main is not None
    # The main thread may be in a system call, which only a signal to this thread interrupts.
    with contextlib.suppress(ProcessLookupError):
        signal.pthread_kill(main, ending)


def exit_with_snakemake() -> None:
    """Have this job receive SIGTERM when its Snakemake dies, or the shell in between.

    Nothing is done without :data:`SNAKEMAKE_PROCESS_VARIABLE`, or if that is this process or one of
    another machine.
    """
    snakemake = os.environ.get(SNAKEMAKE_PROCESS_VARIABLE)
    if not snakemake or snakemake == process_identity():
        return  # a Snakemake that has restarted itself (``exec``)
    running = is_running(snakemake)
    if running:
        for other in {int(snakemake.split()[2]), os.getppid()}:
            exit_with_process(other)
    elif running is False:
        os.kill(os.getpid(), signal.SIGTERM)
