"""Start and end of a program: standard streams, signals, error messages, exit status."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn

from vrtspike.system.errors import EXIT_USER_ERROR, UserError, is_text, printable
from vrtspike.system.progress_bar import take_screen
from vrtspike.system.termination import TerminatedBySignal, exit_on_signals, exit_with_snakemake
from vrtspike.system.user_environment import expand_home, set_default_user
from vrtspike.system.user_error_messages import user_fault

EXIT_SIGINT = 128 + 2
"""Exit status after Ctrl-C, as in a shell."""

EXIT_CLOSED_PIPE = 128 + 13
"""Exit status after SIGPIPE, as in a shell."""


def run_main(
    main: Callable[[], int | None], exit_function: Callable[[int | None], NoReturn] = sys.exit
) -> NoReturn:
    """Run ``main`` and exit with its status.

    A :class:`UserError`, a missing package, a full disk and an unwritable path become plain
    messages. A closed pipe (``| head``) ends the program silently. Standard streams are repaired,
    and deprecation warnings on configurations are shown. At a signal, or when its Snakemake has
    died, the program removes its temporary files.

    Args:
        main: the program; it parses ``sys.argv`` and returns its exit status (None is 0).
        exit_function: function that ends the process with a status.
    """
    warnings.filterwarnings("default", category=DeprecationWarning, module=r"vrtspike\.")
    take_screen()
    _repair_streams()
    set_default_user()
    status: int | None = None
    message = ""
    try:
        exit_on_signals()
        exit_with_snakemake()
        sys.argv[1:] = map(_read_argument, sys.argv[1:])
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_has_ended():
            raise
        # Discard what the interpreter flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_CLOSED_PIPE
    except KeyboardInterrupt:
        status = EXIT_SIGINT
        message = "interrupted"
    except TerminatedBySignal as error:
        status = int(str(error.code))
        message = f"ended by {error.name}"
    except Exception as error:
        fault = user_fault(error)
        if fault is None:
            raise
        status = EXIT_USER_ERROR
        message = f"error: {fault}"
    _flush_streams(message)
    exit_function(status)


def _flush_streams(message: str) -> None:
    """Write a message, if there is one; both streams may be a log on a full disk."""
    with contextlib.suppress(OSError):
        if message:
            sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        sys.stdout.flush()


def _repair_streams() -> None:
    """Open closed standard streams, and have them accept every character.

    A closed stream becomes the null device; otherwise the next opened file would get its descriptor
    and the printed text. Characters that the encoding lacks are escaped.
    """
    for index, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(index)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(index, "w" if index else "r", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _read_argument(word: str) -> str:
    """Return a word of the command line, with expanded ``~`` after ``=``, as in ``--spikes=~/x``.

    Raises:
        UserError: if it is not UTF-8, which result files cannot contain, or there is no such home
            folder.
    """
    if not is_text(word):
        raise UserError(f"{printable(word)}: a name that is not UTF-8; rename it")
    name, equals, value = word.partition("=")
    if not name.startswith("--") or not value.startswith("~"):
        return word
    try:
        return f"{name}{equals}{expand_home(value)}"
    except ValueError as error:
        raise UserError(f"{name}: {error}") from error


def _reader_has_ended() -> bool:
    """Return whether standard output is a pipe whose reader has ended."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
