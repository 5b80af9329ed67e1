"""Compare runs: a table of speed, memory and quality."""

from __future__ import annotations

import argparse

from vrtspike.analysis.comparisons.compare import (
    comparison_of_runs_text,
    find_candidates,
    write_comparison,
)
from vrtspike.system.options import add_runs
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_runs(parser)
    arguments = parser.parse_args()
    candidates = find_candidates(arguments.runs)
    write_comparison(candidates, arguments.output)
    print(comparison_of_runs_text(candidates, "text"), end="")


if __name__ == "__main__":
    run_main(main)
