"""Presets side by side: one table of speed, memory and quality, and overlaid curves."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.analysis.compare import compare_runs
from vrtspike.cli import run


def main() -> None:
    """Parse the arguments, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--train-dirs",
        type=Path,
        nargs="+",
        required=True,
        help="folders of finished runs: results/train/<preset> ...",
    )
    parser.add_argument(
        "--evaluate-dirs",
        type=Path,
        nargs="*",
        default=[],
        help="folders of their evaluations: results/evaluate/<preset> ...",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    arguments = parser.parse_args()
    table = compare_runs(arguments.train_dirs, arguments.evaluate_dirs, arguments.output)
    print(table.set_index("preset").T.to_string(na_rep="-"))


if __name__ == "__main__":
    run(main)
