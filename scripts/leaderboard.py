"""Compare own runs with published figures, by protocol."""

from __future__ import annotations

import argparse

from vrtspike.deblurring.analysis.published import write_leaderboard
from vrtspike.system.cli import add_run_folders, run


def main() -> None:
    """Parse the arguments and write the leaderboard."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_run_folders(parser)
    arguments = parser.parse_args()
    print(write_leaderboard(arguments.train_dirs, arguments.output).to_string(index=False))


if __name__ == "__main__":
    run(main)
