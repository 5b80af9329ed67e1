"""The command ``vrtspike memory``: memory of a running training's processes."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "run_path", type=Path, metavar="RUN", help="folder of the run, or name of its preset"
    )


def run_memory(arguments: argparse.Namespace) -> None:
    """Show the memory of a running training's processes, and of the machine.

    RUN is the run's folder (runs/<preset>/<fingerprint>), or a preset, for its latest run. RSS
    counts shared pages in each process; PSS divides them among the processes.
    """
    from vrtspike.analysis.run_memory import memory_lines
    from vrtspike.runs.selection import find_run

    print("\n".join(memory_lines(find_run(arguments.run_path))))
