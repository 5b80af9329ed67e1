"""Merge the stores' manifests into the data set's manifest with the training statistics."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from vrtspike.data.clips.merging import merge_dataset
from vrtspike.data.manifests import ACCEPTED
from vrtspike.io.files import write_json
from vrtspike.io.manifests import read_manifest, sealed
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, merge, and write the data set's manifest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--accepted",
        type=Path,
        required=True,
        help="acceptance: which sequences, what was left out",
    )
    parser.add_argument("--dataset", required=True, help="name of the data set")
    parser.add_argument("--train-split", default="train", help="split the statistics come from")
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help="manifest to write (JSON), in the folder of the stores and of their manifests, "
        "<split>/<sequence>.json",
    )
    arguments = parser.parse_args()
    accepted = read_manifest(arguments.accepted, ACCEPTED)
    merged = merge_dataset(
        accepted,
        arguments.output.parent,
        dataset_name=arguments.dataset,
        train_split=arguments.train_split,
    )
    write_json(arguments.output, sealed(merged))
    statistics = merged["statistics"]
    if statistics is None:
        print(f"{arguments.dataset}: no spikes, so there are no statistics of them")
        return
    print(
        f"{arguments.dataset}: gain x rate has mean {statistics['mean']:.4f} and standard "
        f"deviation {statistics['std']:.4f} over {statistics['count']} voxels of "
        f"{arguments.train_split}"
    )
    entries = itertools.chain.from_iterable(merged["splits"].values())
    gains = [entry["gain"] for entry in entries if entry["gain"] is not None]
    print(f"gains of its {len(gains)} sequences: {min(gains):.3f} to {max(gains):.3f}")


if __name__ == "__main__":
    run_main(main)
