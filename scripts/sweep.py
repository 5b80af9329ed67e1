"""Compare the trainings of a sweep: a table, parallel coordinates, and curves."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.analysis.comparisons.sweep import write_sweep
from vrtspike.config.sweeps import sweep_values
from vrtspike.io.flatten import ABSENT
from vrtspike.reporting.curves_page import write_curves_page
from vrtspike.system.options import add_runs
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments and write table, plot and curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", type=Path, required=True, help="file of the sweep")
    add_runs(parser)
    arguments = parser.parse_args()
    _, values = sweep_values(arguments.sweep)
    name = arguments.sweep.stem
    table = write_sweep(arguments.runs, values, arguments.output, name)
    write_curves_page(arguments.runs, arguments.output, f"Curves of sweep {name}", values)
    print(table.to_string(index=False, na_rep=ABSENT))


if __name__ == "__main__":
    run_main(main)
