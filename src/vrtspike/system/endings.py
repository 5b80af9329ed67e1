"""How programs end on a signal, or when their parent has ended.

A program that writes removes what it has half written (:func:`exit_on_signals`). None goes on when
the process on whose behalf it runs has died, however many shells lie between (:func:`end_with`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

STARTER = "VRTSPIKE_STARTER"
"""Environment variable: the Snakemake whose jobs end with it, as :func:`name_process` tells it."""

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_START_TIME = 19
"""Place of a process's start among the fields of ``/proc/<number>/stat`` after its name."""


class EndedBySignal(SystemExit):
    """A program was asked to end; its exit status is that which a shell tells of such an end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


def is_ignored(number: signal.Signals) -> bool:
    """Whether a signal does nothing here, as SIGHUP under ``nohup``."""
    return signal.getsignal(number) is signal.SIG_IGN


def describe_status(status: int) -> str:
    """How a program ended, by its status as Python or a shell tells it.

    >>> describe_status(2), describe_status(-15), describe_status(255)
    ('ended with status 2', 'was ended by SIGTERM', 'ended with status 255')
    >>> describe_status(-9) == describe_status(137)
    True
    """
    number = -status if status < 0 else status - 128
    if number not in {*signal.Signals}:
        return f"ended with status {status}"
    killed = ", as when memory is full" * (number == signal.SIGKILL)
    return f"was ended by {signal.Signals(number).name}{killed}"


def exit_on_signals() -> None:
    """Have SIGTERM and SIGHUP end this program by :class:`EndedBySignal`."""
    for number in _ENDING:
        if not is_ignored(number):
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: another one must not cut short what removes the leftovers.
    for each in (*_ENDING, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise EndedBySignal(number)


def name_process(number: int | None = None) -> str | None:
    """A process so that it is told from all others of all machines; None where /proc cannot say.

    Args:
        number: of the process; this one unless given.

    Returns:
        The machine's start, the space of process numbers, the number, its start; with blanks.
    """
    number = os.getpid() if number is None else number
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # Names of programs may hold blanks and brackets.
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    return f"{boot} {space} {number} {fields.split()[_START_TIME]}"


def lives(name: str) -> bool | None:
    """Whether a process still runs, by its :func:`name_process`; None where that is elsewhere."""
    boot, space, number, _ = name.split()
    own = name_process()
    if own is None or own.split()[:2] != [boot, space]:
        return None
    return name_process(int(number)) == name


def end_with(number: int, ending: signal.Signals = signal.SIGTERM) -> None:
    """Send this process a signal when another one of this machine has ended (Linux only).

    Unlike the kernel's own signal to children it does not matter how far away the other process is.

    Args:
        number: of the other process.
        ending: the signal; SIGKILL where nothing has to be put in order.
    """
    if not hasattr(os, "pidfd_open"):
        return
    try:
        process = os.pidfd_open(number)
    except ProcessLookupError:
        os.kill(os.getpid(), ending)
        return
    except OSError:  # a kernel before Linux 5.3
        return
    thread = threading.Thread(target=_wait, args=(process, ending), daemon=True, name="end_with")
    # It inherits what is blocked: a signal that it took would not wake the main thread.
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
    # The main thread may wait for something within the system; only a signal of its own wakes it.
    with contextlib.suppress(ProcessLookupError):
        signal.pthread_kill(main, ending)


def end_with_starter() -> None:
    """End this program in order when the Snakemake that runs it dies, or the shell in between.

    Without :data:`STARTER`, or where that is this program or on another machine, do nothing.
    """
    starter = os.environ.get(STARTER)
    if not starter or starter == name_process():
        return  # a Snakemake that was started again (``exec``) finds itself there
    living = lives(starter)
    if living:
        for other in {int(starter.split()[2]), os.getppid()}:
            end_with(other)
    elif living is False:
        os.kill(os.getpid(), signal.SIGTERM)
