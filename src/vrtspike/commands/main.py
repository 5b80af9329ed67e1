"""The command ``vrtspike``."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import vrtspike
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run
from vrtspike.system.suggestions import did_you_mean

MODULES = {
    "vrtspike.commands.models": ("restore", "export"),
    "vrtspike.commands.recordings": ("show", "calibrate", "verify"),
    "vrtspike.commands.data": ("data",),
    "vrtspike.commands.machine": ("doctor", "advise", "memory", "benchmark"),
    "vrtspike.commands.projects": ("init",),
    "vrtspike.commands.runs": ("pack", "analyze", "compare", "why"),
    "vrtspike.commands.figures": ("figure",),
    "vrtspike.commands.watch": ("watch",),
}
"""The commands by module: the function ``pack`` runs the command ``pack``, its docstring is the
description in ``--help``, whose first line appears in the list of all commands, and ``add_pack``
adds its arguments to a parser. The modules import no large packages, so that ``--help`` is fast."""


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = argparse.ArgumentParser(prog="vrtspike", description="Video deblurring with spikes.")
    parser.add_argument("--version", action="version", version=f"vrtspike {vrtspike.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for path, names in MODULES.items():
        module = import_module(path)
        for name in names:
            command = getattr(module, name)
            description = inspect.cleandoc(command.__doc__)
            subparser = commands.add_parser(
                name,
                help=description.splitlines()[0],
                description=description,
                formatter_class=HelpFormatter,
            )
            getattr(module, f"add_{name}")(subparser)
            subparser.set_defaults(run=command)
    return parser


def require_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Show all commands and end the program if the first word is none of them.

    Raises:
        SystemExit: with argparse's status for a wrong command line, 2.
    """
    if words and words[0].startswith("-"):
        return
    names = [name for group in MODULES.values() for name in group]
    if words and words[0] in names:
        return
    parser.print_help(sys.stderr)
    fault = "a command is missing"
    if words:
        fault = f"no command {words[0]!r}{did_you_mean(words[0], names)}"
    parser.exit(2, f"\nvrtspike: error: {fault}\n")


def complete(parser: argparse.ArgumentParser) -> None:
    """Print completions if a shell requests them, and end the program."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def run_command(words: Sequence[str]) -> int | None:
    """Run one command line.

    Raises:
        UserError: from the command itself.
    """
    parser = make_parser()
    complete(parser)
    require_command(parser, words)
    arguments, extra = parser.parse_known_args(words)
    accept_extra = getattr(arguments, "accept_extra", None)
    if extra and (accept_extra is None or not accept_extra(arguments, extra)):
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    status: int | None = arguments.run(arguments)
    return status


def main() -> None:
    """Run the command line and leave with its status."""
    run(lambda: run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
