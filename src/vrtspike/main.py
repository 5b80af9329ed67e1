"""The command ``vrtspike``: what is done by hand, beside the workflow."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from importlib import import_module

import vrtspike
from vrtspike import cli
from vrtspike.errors import UserError

COMMANDS = {
    "restore": "restore blurry frames or a video with a trained model",
    "show": "figures, picture and video of a spike file",
    "doctor": "whether this machine and this configuration are ready, and how to mend what is not",
    "advise": "which preset fits this machine and this data: memory, hours, disk",
    "memory": "which processes of a running training use how much memory",
    "analyze": "where a run's time and memory went, and what to change; also an old text log",
    "compare": "runs side by side, and against a stored baseline",
    "benchmark": "whether changed keys make training faster here: the same steps, in turns",
    "why": "why stages would run, and what they cost last time",
    "verify": "read stores completely and name every damaged chunk",
}
"""Each command's summary; its module in :mod:`vrtspike.commands` has its name."""

ABOUT_VIDEOS = frozenset({"restore", "show", "verify"})
"""Those whose modules stand in :mod:`vrtspike.deblurring.commands`."""


def parser_for(name: str | None) -> argparse.ArgumentParser:
    """The parser of the command line, complete only for one command.

    The modules of the others are not imported, because ``--help`` shall answer at once.

    Args:
        name: of the command; None or an unknown one for none.
    """
    parser = argparse.ArgumentParser(prog="vrtspike", description="Video deblurring with spikes.")
    parser.add_argument("--version", action="version", version=f"vrtspike {vrtspike.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command, summary in COMMANDS.items():
        if command != name:
            commands.add_parser(command, help=summary)
            continue
        room = "vrtspike.deblurring.commands" if command in ABOUT_VIDEOS else "vrtspike.commands"
        module = import_module(f"{room}.{command}")
        own = commands.add_parser(
            command, help=summary, description=module.__doc__, formatter_class=cli.HelpFormatter
        )
        module.add_arguments(own)
        own.set_defaults(run=module.run)
    return parser


def run_command(words: Sequence[str]) -> int | None:
    """Run one command line.

    Raises:
        UserError: if there is no such command; what the command itself refuses.
    """
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"no command {name}; {meant}There are: {', '.join(COMMANDS)}")
    arguments = parser_for(name).parse_args(words)
    status: int | None = arguments.run(arguments)
    return status


def main() -> None:
    """Run the command line and leave with its status."""
    cli.run(lambda: run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
