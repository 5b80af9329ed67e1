"""Set own runs beside published figures, by protocol."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.deblurring.analysis.published import write_leaderboard
from vrtspike.system.cli import run


def main() -> None:
    """Parse the arguments and write the leaderboard."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--train-dirs", type=Path, nargs="+", required=True, help="result folders of the runs"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for the leaderboard")
    arguments = parser.parse_args()
    print(write_leaderboard(arguments.train_dirs, arguments.output).to_string(index=False))


if __name__ == "__main__":
    run(main)
