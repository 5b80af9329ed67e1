"""The command ``vrtspike``."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import vrtspike
from vrtspike.commands import (
    advise,
    analyze,
    benchmark,
    calibrate,
    compare,
    data,
    doctor,
    export,
    figure,
    init,
    memory,
    pack,
    restore,
    show,
    verify,
    watch,
    why,
)
from vrtspike.system.errors import did_you_mean
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main

AddArguments: TypeAlias = Callable[[argparse.ArgumentParser], None]
"""Function that adds the arguments of a command to its parser."""

CommandFunction: TypeAlias = Callable[[argparse.Namespace], int | None]
"""Function that runs a command, and returns its exit status; None is 0."""

COMMANDS: Mapping[str, tuple[AddArguments, CommandFunction]] = {
    "restore": (restore.add_restore, restore.run_restore),
    "export": (export.add_export, export.run_export),
    "show": (show.add_show, show.run_show),
    "calibrate": (calibrate.add_calibrate, calibrate.run_calibrate),
    "verify": (verify.add_verify, verify.run_verify),
    "data": (data.add_data, data.run_data),
    "doctor": (doctor.add_doctor, doctor.run_doctor),
    "advise": (advise.add_advise, advise.run_advise),
    "memory": (memory.add_memory, memory.run_memory),
    "benchmark": (benchmark.add_benchmark, benchmark.run_benchmark),
    "init": (init.add_init, init.run_init),
    "pack": (pack.add_pack, pack.run_pack),
    "analyze": (analyze.add_analyze, analyze.run_analyze),
    "compare": (compare.add_compare, compare.run_compare),
    "why": (why.add_why, why.run_why),
    "figure": (figure.add_figure, figure.run_figure),
    "watch": (watch.add_watch, watch.run_watch),
}
"""The commands in the order of ``--help``.

The docstring of the function that runs a command is its description in ``--help``; its first line
appears in the list of commands. The modules import no large packages, so that ``--help`` is
fast."""


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = argparse.ArgumentParser(prog="vrtspike", description="Video deblurring with spikes.")
    parser.add_argument("--version", action="version", version=f"vrtspike {vrtspike.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (add_arguments, run_function) in COMMANDS.items():
        description = inspect.cleandoc(run_function.__doc__ or "")
        subparser = commands.add_parser(
            name,
            help=description.splitlines()[0],
            description=description,
            formatter_class=HelpFormatter,
        )
        add_arguments(subparser)
        subparser.set_defaults(run=run_function)
    return parser


def require_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Show all commands and end the program if the first word is none of them.

    Raises:
        SystemExit: with argparse's status for a wrong command line, 2.
    """
    if words and words[0].startswith("-"):
        return
    if words and words[0] in COMMANDS:
        return
    parser.print_help(sys.stderr)
    fault = "a command is missing"
    if words:
        fault = f"no command {words[0]!r}{did_you_mean(words[0], COMMANDS)}"
    parser.exit(2, f"\nvrtspike: error: {fault}\n")


def complete(parser: argparse.ArgumentParser) -> None:
    """Print completions if a shell requests them, and end the program."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def run_command(argv: Sequence[str]) -> int | None:
    """Run one command line.

    Raises:
        UserError: from the command itself.
    """
    parser = make_parser()
    complete(parser)
    require_command(parser, argv)
    arguments, extra = parser.parse_known_args(argv)
    accept_extra = getattr(arguments, "accept_extra", None)
    if extra and (accept_extra is None or not accept_extra(arguments, extra)):
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    status: int | None = arguments.run(arguments)
    return status


def main() -> None:
    """Run the command line and leave with its status."""
    run_main(lambda: run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
