"""Compare own runs with published results, by protocol."""

from __future__ import annotations

import argparse

from vrtspike.deblurring.leaderboard import write_leaderboard
from vrtspike.system.options import add_runs
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments and write the leaderboard."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_runs(parser)
    parser.add_argument(
        "--all-columns",
        action="store_true",
        help="in every format, not in leaderboard.csv alone: errors, notes, sources",
    )
    arguments = parser.parse_args()
    folders = arguments.runs
    output = arguments.output
    write_leaderboard(folders, output, all_columns=arguments.all_columns)
    print((output / "leaderboard.md").read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    run_main(main)
