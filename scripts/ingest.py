"""Check the sequences of a shard and write a manifest of each.

A sequence with faults still gets a manifest, in which they are listed; scripts/accept.py turns the
faults of all sequences into one error. Manifests that are up to date are kept.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import SURVEY, surveyed_sequences
from vrtspike.data.shards import shard_members
from vrtspike.data.stages import IngestStage, process_shard
from vrtspike.io.manifests import read_manifest
from vrtspike.system.options import HelpFormatter, add_options, add_shard
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, check the sequences and write their manifests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    add_options(parser, RawFolder, "folder of the raw files")
    parser.add_argument("--survey", type=Path, required=True, help="survey: which sequences")
    parser.add_argument(
        "--ingested",
        type=Path,
        required=True,
        help="folder of the manifests to write, <split>/<sequence>.json",
    )
    add_shard(parser)
    arguments = parser.parse_args()
    process_shard(
        IngestStage(arguments.ingested, arguments.options),
        shard_members(arguments.shard, surveyed_sequences(read_manifest(arguments.survey, SURVEY))),
        arguments.output,
        arguments.threads,
        partial(print, flush=True),
    )


if __name__ == "__main__":
    run_main(main)
