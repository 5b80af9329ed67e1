"""Tell which processes of a running training use how much memory, and what the machine has left.

RUN is the run's folder (runs/<preset>/<fingerprint>), or a preset, whose latest run is meant.
Resident memory counts pages that processes share in each of them; "share" divides them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import positive_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "run_path", type=Path, metavar="RUN", help="folder of the run, or name of its preset"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs (RUNS)")
    parser.add_argument(
        "--watch",
        type=positive_number,
        metavar="SECONDS",
        help="look again after so many seconds, for ever",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print what is found, once or again and again.

    Raises:
        RunError: if there is no such run.
    """
    import time

    from vrtspike.analysis.run_memory import measure_run, memory_lines
    from vrtspike.runs.folder import find_run_folder

    folder = find_run_folder(arguments.run_path, arguments.runs)
    while True:
        print("\n".join(memory_lines(measure_run(folder))), flush=True)
        if arguments.watch is None:
            return
        time.sleep(arguments.watch)
        print()
