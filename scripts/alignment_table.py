"""Table and plot of the exposures of a data set: window, spikes, found centre, correlation."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from vrtspike.analysis.alignment import plot_alignment
from vrtspike.cli import run
from vrtspike.data.alignment_table import COLUMNS, alignment_rows, write_alignment_table


def main() -> None:
    """Parse the arguments, write the table and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("manifests", nargs="+", help="ingest manifests; @FILE reads their paths")
    parser.add_argument("--table", type=Path, required=True, help="table to write (CSV)")
    parser.add_argument("--plot", type=Path, required=True, help="plot to write (SVG)")
    arguments = parser.parse_args()
    rows = alignment_rows(arguments.manifests)
    write_alignment_table(arguments.table, rows)
    table = pd.DataFrame(rows, columns=COLUMNS).astype({"center": float, "correlation": float})
    plot_alignment(arguments.plot, table)
    correlation = f", median correlation {table['correlation'].median():.3f}" if rows else ""
    print(f"{len(rows)} exposures{correlation}")


if __name__ == "__main__":
    run(main)
