"""The command ``vrtspike``."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module

import vrtspike
from vrtspike.system import cli

COMMANDS = {
    "restore": "restore blurry frames or a video with a trained model",
    "pack": "write a finished run as one folder with a model card, to give away",
    "export": "write a trained model as an ONNX file, which runs without PyTorch",
    "show": "figures, picture and video of a spike file",
    "calibrate": "where and when the frames of your own camera see what the spike sensor sees",
    "doctor": "whether this machine and this configuration are ready, and how to fix what is not",
    "advise": "which preset fits this machine and this data: memory, hours, disk",
    "memory": "which processes of a running training use how much memory",
    "analyze": "where a run's time and memory went, and what to change; also an old text log",
    "compare": "runs side by side, and against a stored baseline",
    "benchmark": "whether changed keys make training faster here: the same steps, in turns",
    "why": "why stages would run, and what they cost last time",
    "verify": "read stores completely and name every damaged chunk",
}
"""Each command's summary."""

_MODULES = {
    "commands.machine": ("doctor", "advise", "memory", "benchmark"),
    "commands.runs": ("pack", "analyze", "compare", "why"),
    "deblurring.commands.models": ("restore", "export"),
    "deblurring.commands.recordings": ("show", "calibrate", "verify"),
}
"""The commands by module: the function ``pack`` runs the command ``pack``, its docstring is the
description in ``--help``, and ``add_pack`` adds its arguments to a parser."""


def parser_for(name: str | None) -> argparse.ArgumentParser:
    """The parser of the command line, complete for one command only.

    Modules of other commands are not imported, so that ``--help`` is fast.

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
        (place,) = (module for module, known in _MODULES.items() if command in known)
        module = import_module(f"vrtspike.{place}")
        run = getattr(module, command)
        own = commands.add_parser(
            command,
            help=summary,
            description=inspect.getdoc(run),
            formatter_class=cli.HelpFormatter,
        )
        getattr(module, f"add_{command}")(own)
        own.set_defaults(run=run)
    return parser


def run_command(words: Sequence[str]) -> int | None:
    """Run one command line.

    Raises:
        UserError: from the command itself.
    """
    name = next((word for word in words if not word.startswith("-")), None)
    arguments = parser_for(name).parse_args(words)
    status: int | None = arguments.run(arguments)
    return status


def main() -> None:
    """Run the command line and leave with its status."""
    cli.run(lambda: run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
