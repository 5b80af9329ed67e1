"""Compare the trainings of one preset with different seeds: each, mean and spread, and curves."""

from __future__ import annotations

import argparse

from vrtspike.analysis.comparisons.seeds import write_seeds
from vrtspike.io.flatten import ABSENT
from vrtspike.reporting.curves_page import write_curves_page
from vrtspike.system.options import add_runs
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments and write table and curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_runs(parser)
    arguments = parser.parse_args()
    runs = arguments.runs
    table = write_seeds(runs, arguments.output)
    write_curves_page(runs, arguments.output, f"Curves of the seeds of {runs[0].name}")
    print(table.to_string(index=False, na_rep=ABSENT))


if __name__ == "__main__":
    run_main(main)
