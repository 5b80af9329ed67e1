"""Common parts of the programs in ``scripts/``: options, error handling, exit statuses."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import re
import resource
import select
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from vrtspike.system.cpus import available_cpus
from vrtspike.system.endings import EndedBySignal, exit_on_signals, exit_with_snakemake
from vrtspike.system.errors import (
    EXIT_USER_ERROR,
    UserError,
    describe_full_disk,
    is_disk_full,
    is_text,
    shown,
)
from vrtspike.system.surroundings import expand_home, set_default_user, write_fault

_NOT_WRITABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)
"""Errors of a path that this user cannot write, or that cannot exist."""

_NO_MEMORY = re.compile(
    "failed to map segment|[Cc]annot allocate memory|[Cc]annot apply additional"
)
"""Messages of the dynamic linker when there is too little memory for a library."""

EXIT_SIGINT = 128 + 2
"""Exit status after Ctrl-C, as in a shell."""

EXIT_CLOSED_PIPE = 128 + 13
"""Exit status after SIGPIPE, as in a shell."""


_CONFIGURATION = Path("config/config.yaml")


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Help formatter that shows defaults, but not of required options, None and False."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.required or action.default is None or action.default is False:
            return action.help
        return super()._get_help_string(action)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add ``--run`` and ``--output``, the options of programs that compare runs."""
    parser.add_argument(
        "--run",
        dest="runs",
        type=Path,
        nargs="+",
        required=True,
        metavar="RUN",
        help="folders of finished runs: results/train/<preset> ...",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")


def add_configuration(
    parser: argparse.ArgumentParser, contents: str = "", configfiles: Sequence[Path] = ()
) -> None:
    """Add ``--configfile`` and ``--config``, as snakemake takes them.

    :func:`vrtspike.config.yaml_documents.read_overrides` reads the words of ``--config``.

    Args:
        parser: parser of the program or command.
        contents: help on the files.
        configfiles: files that are read if none is given.
    """
    parser.add_argument(
        "--configfile",
        type=Path,
        nargs="+",
        default=list(configfiles),
        metavar="FILE",
        help=contents or "overrides config/config.yaml",
    )
    parser.add_argument(
        "--config",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="values that override the files, as snakemake takes them, or a JSON mapping",
    )


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Add ``--preset``, and the options with which rules pass the configuration."""
    parser.add_argument("--preset", required=True, help="name of the preset")
    contents = f"workflow configuration, later files win (default: {_CONFIGURATION})"
    add_configuration(parser, contents, [_CONFIGURATION])


def add_shard(parser: argparse.ArgumentParser) -> None:
    """Add the options of programs that process a shard."""
    parser.add_argument(
        "--shard",
        default="0-of-1",
        help="which sequences: those that fall into the first of 8 shards are 0-of-8",
    )
    parser.add_argument(
        "--threads", type=positive_int, default=available_cpus(), help="sequences at a time"
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="what was made of the shard, to write (JSON)"
    )


def add_output(
    parser: argparse.ArgumentParser,
    contents: str,
    metavar: str = "OUTPUT",
    *,
    required: bool = False,
) -> None:
    """Add ``--output``, an :func:`output_path` that is described by its contents."""
    parser.add_argument(
        "-o", "--output", type=output_path, required=required, metavar=metavar, help=contents
    )


def output_path(text: str) -> Path:
    """Return a path that can be written to, for ``type`` of an argument; its test file is removed.

    Raises:
        argparse.ArgumentTypeError: if no file can be created in its nearest folder.
    """
    path = Path(text)
    reason = write_fault(path.parent if path.is_file() else path)
    if reason:
        raise argparse.ArgumentTypeError(
            f"{text}: cannot be written there ({reason}); give another place"
        )
    return path


def integer_from(text: str, min_value: int, max_value: int | None = None) -> int:
    """Parse an option's value: an integer within limits.

    Args:
        text: the value as typed.
        min_value: the smallest one allowed, from 0.
        max_value: the largest one allowed; None for no limit.

    Raises:
        argparse.ArgumentTypeError: if it is something else.

    >>> integer_from("0", min_value=0)
    0
    """
    expected = f"{min_value} or more" if max_value is None else f"{min_value} to {max_value}"
    error = argparse.ArgumentTypeError(f"found {text}, expected {expected}")
    if not text.isdecimal():
        raise error
    number = int(text)
    if number < min_value or (max_value is not None and number > max_value):
        raise error
    return number


def positive_int(text: str) -> int:
    """Parse an option's value: an integer of at least 1.

    >>> positive_int("3")
    3
    """
    return integer_from(text, min_value=1)


def positive_number(text: str) -> float:
    """Parse an option's value: a finite number above 0.

    >>> positive_number("0.5")
    0.5
    """
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text}, expected a number above 0")
    return number


def run(
    main: Callable[[], int | None], leave: Callable[[int | None], NoReturn] = sys.exit
) -> NoReturn:
    """Run ``main`` and exit with its status.

    A :class:`UserError`, a missing package, a full disk and an unwritable path become plain
    messages. A closed pipe (``| head``) ends the program silently. Standard streams are repaired
    (:func:`repair_streams`), and deprecation warnings on configurations are shown. At a signal, or
    when its Snakemake has died, the program removes its temporary files.

    Args:
        main: the program; it parses ``sys.argv`` and returns its exit status (None is 0).
        leave: function that ends the process with a status.
    """
    warnings.filterwarnings("default", category=DeprecationWarning, module=r"vrtspike\.")
    repair_streams()
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
    except EndedBySignal as error:
        status = int(str(error.code))
        message = f"ended by {error.name}"
    except Exception as error:
        fault = user_fault(error)
        if fault is None:
            raise
        status = EXIT_USER_ERROR
        message = f"error: {fault}"
    _flush_streams(message)
    leave(status)


def _flush_streams(message: str) -> None:
    """Write a message, if there is one; both streams may be a log on a full disk."""
    with contextlib.suppress(OSError):
        if message:
            sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        sys.stdout.flush()


def user_fault(error: Exception) -> str | None:
    """Return a message on an error that the user can fix; None on a fault of the program."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ImportError):
        return _import_fault(error)
    if isinstance(error, MemoryError):
        return memory_fault(error)
    if isinstance(error, OSError):
        return _file_fault(error)
    return None


def _import_fault(error: ImportError) -> str | None:
    """Return a message on a package that is missing or broken; None on our own modules."""
    if (error.name or "").startswith("vrtspike"):
        return None
    # Imported here, because reading the metadata of packages takes time; other endings do without.
    from vrtspike.system.packages import import_fault

    return memory_fault(error) or import_fault(error)


def _file_fault(error: OSError) -> str | None:
    """Return a message on a full disk or on a path that cannot be written; None on other errors."""
    if is_disk_full(error):
        reason = f"{describe_full_disk(error)}, or move RESULTS or RUNS"
    elif error.errno in _NOT_WRITABLE and error.filename:
        reason = f"{error.strerror}; fix it or its permissions, or give another place"
    else:
        return None
    # A copy has two names: its source, and the file that could not be written.
    path = error.filename2 or error.filename or "a file"
    return f"{path}: {reason}, and run again"


def memory_fault(error: MemoryError | ImportError) -> str | None:
    """Return a message on an error that a limit of memory may have caused, if it may."""
    limit = memory_limit()
    if limit is None or (isinstance(error, ImportError) and not _NO_MEMORY.search(str(error))):
        return None
    return f"{limit} ({error or 'MemoryError'})"


def memory_limit() -> str | None:
    """Describe the limit of this process's memory (``ulimit -v``); None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    return f"memory is limited to {limit / 2**20:.0f} MB (ulimit -v); raise it: ulimit -v unlimited"


def repair_streams() -> None:
    """Open closed standard streams, and have them accept every character.

    A closed stream becomes the null device; otherwise the next opened file would get its descriptor
    and the printed text. Characters that the encoding lacks are escaped.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
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
        raise UserError(f"{shown(word)}: a name that is not UTF-8; rename it")
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
