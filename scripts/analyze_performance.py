"""Analyse time and memory of a run: tables, plots, ranked findings and a proposed preset."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.analysis.advice.findings import finding_lines
from vrtspike.analysis.performance import read_analysis, write_analysis
from vrtspike.system.program import run


def main() -> None:
    """Parse the arguments, analyse, and print the findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--run",
        type=Path,
        required=True,
        help="folder of a finished run: results/train/<preset>",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    arguments = parser.parse_args()
    analysis = read_analysis(arguments.run)
    write_analysis(analysis, arguments.output)
    print("\n".join(finding_lines(analysis.findings)))


if __name__ == "__main__":
    run(main)
