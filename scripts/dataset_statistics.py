"""Merge the stores' manifests into the data set's manifest with the training statistics."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import run
from vrtspike.data.dataset import merge_dataset
from vrtspike.files import read_json, write_json


def main() -> None:
    """Parse the arguments, merge, and write the data set's manifest."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        fromfile_prefix_chars="@",
    )
    parser.add_argument("--manifests", nargs="+", required=True, help="manifests of all stores")
    parser.add_argument("--dataset", required=True, help="name of the data set")
    parser.add_argument("--bins", type=int, default=32, help="voxel bins (DATA.K)")
    parser.add_argument("--train-split", default="train", help="split the statistics come from")
    parser.add_argument("--accepted", type=Path, help="acceptance: which sequences were left out")
    parser.add_argument("--output", type=Path, required=True, help="manifest to write (JSON)")
    arguments = parser.parse_args()
    merged = merge_dataset(
        arguments.manifests,
        dataset=arguments.dataset,
        bins=arguments.bins,
        folder=arguments.output.parent,
        train_split=arguments.train_split,
        excluded=read_json(arguments.accepted)["excluded"] if arguments.accepted else None,
    )
    write_json(arguments.output, merged)
    statistics = merged["statistics"]
    if statistics is None:
        print(f"{arguments.dataset}: no spikes, so there are no statistics of them")
        return
    print(
        f"{arguments.dataset}: log1p(rate) has mean {statistics['mean']:.4f} and standard "
        f"deviation {statistics['std']:.4f} over {statistics['count']} voxels of "
        f"{arguments.train_split}"
    )


if __name__ == "__main__":
    run(main)
