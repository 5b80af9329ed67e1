"""Table and plot of the exposures of a data set: window, spikes, found centre, correlation."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.data.alignment_table import alignment_table, plot_alignment
from vrtspike.data.manifests import SURVEY, manifest_paths, surveyed_sequences
from vrtspike.io.files import atomic_write_text
from vrtspike.io.manifests import read_manifest
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, write the table and the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--survey", type=Path, required=True, help="survey: which sequences")
    parser.add_argument(
        "--ingested",
        type=Path,
        required=True,
        help="folder of their ingest manifests, <split>/<sequence>.json",
    )
    parser.add_argument("--table", type=Path, required=True, help="table to write (CSV)")
    parser.add_argument("--plot", type=Path, required=True, help="plot to write (SVG)")
    arguments = parser.parse_args()
    names = surveyed_sequences(read_manifest(arguments.survey, SURVEY))
    table = alignment_table(manifest_paths(arguments.ingested, names))
    atomic_write_text(arguments.table, table.to_csv(index=False, lineterminator="\n"))
    plot_alignment(arguments.plot, table)
    correlation = ""
    if len(table):
        correlation = f", median correlation {table['correlation'].median():.3f}"
    print(f"{len(table)} exposures{correlation}")


if __name__ == "__main__":
    run_main(main)
