"""Compare runs: a table of speed, memory and quality."""

from __future__ import annotations

import argparse

from vrtspike.analysis.compare import find_candidate, write_comparison
from vrtspike.system.cli import add_run_folders, run


def main() -> None:
    """Parse the arguments, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_run_folders(parser)
    arguments = parser.parse_args()
    table = write_comparison(list(map(find_candidate, arguments.train_dirs)), arguments.output)
    print(table.set_index("preset").T.to_string(na_rep="-"))


if __name__ == "__main__":
    run(main)
