"""Pack a run in half precision and put it into the package as its own weights."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.io.files import folder_size
from vrtspike.restoration.bundling import bundle_weights
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments and replace the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--run", type=Path, default=Path("results/train/general"), help="result folder of the run"
    )
    parser.add_argument(
        "--evaluation",
        type=Path,
        help="folder of its evaluation; results/evaluate/<preset> unless given",
    )
    parser.add_argument(
        "--output", type=Path, help="folder that is replaced; that in the package unless given"
    )
    arguments = parser.parse_args()
    folder = bundle_weights(arguments.run, output=arguments.output, evaluation=arguments.evaluation)
    _, size = folder_size(folder)
    print(f"{folder}: {size / 1e6:.1f} MB, sound")


if __name__ == "__main__":
    run_main(main)
