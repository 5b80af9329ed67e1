"""The command ``vrtspike``."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module

import vrtspike
from vrtspike.system import cli

MODULES = {
    "vrtspike.deblurring.commands.models": ("restore", "export"),
    "vrtspike.deblurring.commands.recordings": ("show", "calibrate", "verify"),
    "vrtspike.commands.machine": ("doctor", "advise", "memory", "benchmark"),
    "vrtspike.commands.runs": ("pack", "analyze", "compare", "why"),
}
"""The commands by module: the function ``pack`` runs the command ``pack``, its docstring is the
description in ``--help``, whose first line stands in the list of all commands, and ``add_pack``
adds its arguments to a parser. The modules import no large packages, so that ``--help`` is fast."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(prog="vrtspike", description="Video deblurring with spikes.")
    parser.add_argument("--version", action="version", version=f"vrtspike {vrtspike.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for path, names in MODULES.items():
        module = import_module(path)
        for name in names:
            run = getattr(module, name)
            description = inspect.cleandoc(run.__doc__)
            own = commands.add_parser(
                name,
                help=description.splitlines()[0],
                description=description,
                formatter_class=cli.HelpFormatter,
            )
            getattr(module, f"add_{name}")(own)
            own.set_defaults(run=run)
    return parser


def run_command(words: Sequence[str]) -> int | None:
    """Run one command line.

    Raises:
        UserError: from the command itself.
    """
    arguments = make_parser().parse_args(words)
    status: int | None = arguments.run(arguments)
    return status


def main() -> None:
    """Run the command line and leave with its status."""
    cli.run(lambda: run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
