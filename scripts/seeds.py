"""Compare the trainings of one preset with different seeds: each, mean and standard deviation."""

from __future__ import annotations

import argparse

from vrtspike.analysis.ablation import write_seeds
from vrtspike.io.flatten import ABSENT
from vrtspike.system.cli import add_runs, run


def main() -> None:
    """Parse the arguments and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_runs(parser)
    arguments = parser.parse_args()
    table = write_seeds(arguments.runs, arguments.output)
    print(table.to_string(index=False, na_rep=ABSENT))


if __name__ == "__main__":
    run(main)
