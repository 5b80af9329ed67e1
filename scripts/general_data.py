"""Generate the training data of the weights `general` from pictures inside packages."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.data.simulation.general import make_general_data
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments and write the data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("data/general"), help="data set folder")
    parser.add_argument(
        "--seed", type=int, default=0, help="decides camera paths, colours and spikes"
    )
    arguments = parser.parse_args()
    make_general_data(arguments.output, seed=arguments.seed, report=print)


if __name__ == "__main__":
    run_main(main)
