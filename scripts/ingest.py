"""Check one sequence and write its manifest.

A sequence with faults still gets a manifest, in which they are listed; scripts/accept.py turns the
faults of all sequences into one error.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import HelpFormatter, run
from vrtspike.data.gate.ingest import ingest_sequence
from vrtspike.data.raw.layouts.table import AUTO, LAYOUTS
from vrtspike.files import write_json
from vrtspike.progress_bar import progress_bar


def main() -> None:
    """Parse the arguments, check the sequence and write the manifest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--root", required=True, help="folder of the data set")
    parser.add_argument("--split", required=True, help="split of the sequence")
    parser.add_argument("--sequence", required=True, help="name of the sequence")
    parser.add_argument("--blur-dir", default="blur", help="folder of the blurry frames")
    parser.add_argument("--layout", choices=[AUTO, *LAYOUTS], default=AUTO, help="of the files")
    parser.add_argument("--source-version", required=True, help="version of the raw files")
    parser.add_argument(
        "--spike-size",
        type=int,
        nargs=2,
        metavar=("H", "W"),
        help="rows and columns of the spike sensor as in its files; default: the config.yaml "
        "beside the spikes or the size in .npz files, else half the frames' size",
    )
    parser.add_argument("--output", type=Path, required=True, help="manifest to write (JSON)")
    arguments = parser.parse_args()
    with progress_bar(f"ingest {arguments.split}/{arguments.sequence}") as progress:
        manifest = ingest_sequence(
            arguments.root,
            arguments.split,
            arguments.sequence,
            blur_dir=arguments.blur_dir,
            source_version=arguments.source_version,
            spike_size=tuple(arguments.spike_size) if arguments.spike_size else None,
            layout=arguments.layout,
            progress=progress,
        )
    write_json(arguments.output, manifest)
    faults = manifest["faults"]
    alignment = manifest["alignment"]
    spikes = "no spikes"
    if manifest["spikes"]:
        spikes = (
            f"exposure centre {alignment['median_center']} (expected {alignment['expected']}), "
            f"correlation {alignment['median_correlation']}"
        )
    print(
        f"{arguments.split}/{arguments.sequence}: {len(manifest['frames'])} frames, {spikes}, "
        f"{len(faults)} faults"
    )
    for fault in faults:
        print(f"  - {fault}")


if __name__ == "__main__":
    run(main)
