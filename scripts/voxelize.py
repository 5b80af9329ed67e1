"""Build the Zarr store of one sequence (frames, spike counts, spike bits) and its manifest."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import HelpFormatter, run
from vrtspike.data.store.build import build_store
from vrtspike.progress_bar import progress_bar


def main() -> None:
    """Parse the arguments and build the store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--root", required=True, help="folder of the data set")
    parser.add_argument("--manifest", type=Path, required=True, help="ingest manifest (JSON)")
    parser.add_argument("--bins", type=int, default=32, help="voxel bins (DATA.K)")
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help="manifest to write (JSON); the store stands beside it, with the suffix .zarr",
    )
    arguments = parser.parse_args()
    with progress_bar(f"voxelize {arguments.output.stem}") as progress:
        store = build_store(
            arguments.root, arguments.manifest, arguments.bins, arguments.output, progress
        )
    print(
        f"{store['split']}/{store['sequence']}: {len(store['frames'])} frames, {store['bins']} "
        f"bins, digest {store['digest'][:12]}"
    )


if __name__ == "__main__":
    run(main)
