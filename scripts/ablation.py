"""Compare presets with the variants of their ablation: a table of metrics."""

from __future__ import annotations

import argparse

from vrtspike.analysis.comparisons.ablation import compare_variants
from vrtspike.io.flatten import ABSENT
from vrtspike.system.options import add_runs
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, compare, and print the table and what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_runs(parser)
    arguments = parser.parse_args()
    table, sentences = compare_variants(arguments.runs, arguments.output)
    print(table.to_string(index=False, na_rep=ABSENT), *sentences, sep="\n")


if __name__ == "__main__":
    run_main(main)
