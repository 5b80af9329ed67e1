"""Analyse time and memory of a run: tables, plots, ranked findings and a proposed preset."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.analysis.diagnosis.findings import finding_lines
from vrtspike.analysis.performance import analyze_run, write_analysis
from vrtspike.system.program import run_main


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
    analysis = analyze_run(arguments.run)
    write_analysis(analysis, arguments.output)
    print("\n".join(finding_lines(analysis.findings)))


if __name__ == "__main__":
    run_main(main)
