"""Build the Zarr stores (frames, spike counts, spike bits) of a shard's sequences.

Each store has a manifest next to it. Stores that are complete and up to date are kept.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from vrtspike.data.manifests import ACCEPTED
from vrtspike.data.shards import shard_members
from vrtspike.data.stages import VoxelizeStage, process_shard
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.manifests import read_manifest
from vrtspike.system.options import HelpFormatter, add_options, add_shard
from vrtspike.system.program import run_main


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
    add_options(parser, StoreOptions, "options of the stores")
    add_shard(parser)
    arguments = parser.parse_args()
    accepted = read_manifest(arguments.accepted, ACCEPTED)
    stage = VoxelizeStage(
        arguments.stores,
        arguments.root,
        arguments.ingested,
        arguments.options,
    )
    process_shard(
        stage,
        shard_members(arguments.shard, accepted["sequences"]),
        arguments.output,
        arguments.threads,
        partial(print, flush=True),
    )


if __name__ == "__main__":
    run_main(main)
