"""The command ``vrtspike compare``: runs beside each other, and beside a baseline."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vrtspike.commands.run_argument import find_run_folder
from vrtspike.system.options import add_output


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of a run, finished or not",
    )
    parser.add_argument(
        "--format",
        choices=("text", "csv", "markdown"),
        default="text",
        help="of what is printed",
    )
    add_output(parser, "folder that tables are also written to")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="judge the runs by this file")
    parser.add_argument(
        "--write-baseline", type=Path, metavar="FILE", help="keep the metrics of the runs there"
    )


def run_compare(arguments: argparse.Namespace) -> int:
    """Compare runs: speed, memory, quality, settings; also with a stored baseline.

    Evaluations are read from <results>/evaluate/<preset>. With a baseline, the exit status is 1 if
    a metric of a run is worse.
    """
    folders = [find_run_folder(path) or path for path in arguments.runs]
    from vrtspike.analysis.comparisons.baseline import below_baseline, write_baseline
    from vrtspike.analysis.comparisons.compare import (
        comparison_of_runs_text,
        find_candidates,
        write_comparison,
    )

    candidates = find_candidates(folders)
    print(comparison_of_runs_text(candidates, arguments.format), end="", flush=True)
    if arguments.output is not None:
        write_comparison(candidates, arguments.output)
        print(f"written to {arguments.output}", file=sys.stderr)
    faults: list[str] = []
    if arguments.baseline is not None:
        faults = below_baseline(arguments.baseline, candidates)
        text = "\n".join(faults) or f"no run is below the baseline ({arguments.baseline})"
        print(text, file=sys.stderr)
    if arguments.write_baseline is not None:
        write_baseline(arguments.write_baseline, candidates)
        print(f"baseline: {arguments.write_baseline}", file=sys.stderr)
    return 1 if faults else 0
