"""Build the Zarr stores (frames, spike counts, spike bits) of a share's sequences.

Each has a manifest beside it. Stores that are complete and still hold are kept.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from vrtspike.cli import HelpFormatter, add_share, run
from vrtspike.deblurring.data.bundles import make_share
from vrtspike.deblurring.data.manifests import ACCEPTED
from vrtspike.deblurring.data.shares import Share
from vrtspike.deblurring.data.store.build_share import Building
from vrtspike.manifests import read_manifest


def main() -> None:
    """Parse the arguments and build the stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--root", required=True, help="folder of the data set")
    parser.add_argument("--accepted", type=Path, required=True, help="acceptance: which sequences")
    parser.add_argument(
        "--ingested",
        type=Path,
        required=True,
        help="folder of their ingest manifests, <split>/<sequence>.json",
    )
    parser.add_argument(
        "--stores",
        type=Path,
        required=True,
        help="folder of the stores to write, <split>/<sequence>.zarr, and of their manifests",
    )
    parser.add_argument("--bins", type=int, default=32, help="voxel bins (DATA.K)")
    add_share(parser)
    arguments = parser.parse_args()
    accepted = read_manifest(arguments.accepted, ACCEPTED)
    make_share(
        Building(arguments.root, arguments.ingested, arguments.bins, arguments.stores),
        Share.parse(arguments.share).of(accepted["sequences"]),
        arguments.stores,
        arguments.output,
        arguments.threads,
        partial(print, flush=True),
        asked=arguments.asked,
    )


if __name__ == "__main__":
    run(main)
