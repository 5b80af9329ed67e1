"""Compare runs: speed, memory, quality, and what differs in their settings.

Their evaluations are found beside them (<results>/evaluate/<preset>). With a baseline, the exit
status is 1 if a run has fallen below it; metrics are always judged, speed and memory where a
tolerance is given for them, such as --tolerance psnr=0.1 samples/s=10%.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="result folder of a run: results/train/<preset>",
    )
    parser.add_argument(
        "--format",
        choices=("text", "csv", "markdown"),
        default="text",
        help="of what is printed",
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="folder that tables and curves are also written to"
    )
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="judge the runs by this file")
    parser.add_argument(
        "--tolerance",
        nargs="+",
        default=[],
        metavar="NAME=NUMBER",
        help="by how much a figure may be worse than the baseline's; in per cent with %%",
    )
    parser.add_argument(
        "--write-baseline", type=Path, metavar="FILE", help="keep the figures of the runs there"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison; 1 if a run is below the baseline, else 0.

    Raises:
        ConfigError: if there is a tolerance and no baseline.
        RunError: if a folder holds no run, or the baseline nothing of one.
    """
    from vrtspike.analysis.baseline import below_baseline, parse_tolerances, write_baseline
    from vrtspike.analysis.compare import find_candidates, write_comparison
    from vrtspike.analysis.compare_text import comparison_text
    from vrtspike.errors import ConfigError

    if arguments.tolerance and arguments.baseline is None:
        raise ConfigError("--tolerance judges by a baseline; give its file (--baseline)")
    tolerances = parse_tolerances(arguments.tolerance)
    candidates = find_candidates(arguments.runs)
    print(comparison_text(candidates, arguments.format), end="", flush=True)
    if arguments.output is not None:
        write_comparison(candidates, arguments.output)
        print(f"written to {arguments.output}", file=sys.stderr)
    worse: list[str] = []
    if arguments.baseline is not None:
        worse = below_baseline(arguments.baseline, candidates, tolerances)
        said = "\n".join(worse) or f"no run is below the baseline ({arguments.baseline})"
        print(said, file=sys.stderr)
    if arguments.write_baseline is not None:
        write_baseline(arguments.write_baseline, candidates)
        print(f"baseline: {arguments.write_baseline}", file=sys.stderr)
    return 1 if worse else 0
