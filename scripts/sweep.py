"""Compare the trainings of a sweep: a table, and parallel coordinates."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.analysis.sweep import write_sweep
from vrtspike.config.sweeps import sweep_values
from vrtspike.io.flatten import ABSENT
from vrtspike.system.cli import add_runs, run


def main() -> None:
    """Parse the arguments and write table and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", type=Path, required=True, help="file of the sweep")
    add_runs(parser)
    arguments = parser.parse_args()
    _, values = sweep_values(arguments.sweep)
    name = arguments.sweep.stem
    table = write_sweep(arguments.runs, values, arguments.output, name)
    print(table.to_string(index=False, na_rep=ABSENT))


if __name__ == "__main__":
    run(main)
