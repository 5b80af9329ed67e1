"""Accept a data set if no sequence has a fault; else list every fault of every sequence."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.data.gate.accept import accept
from vrtspike.data.manifests import SURVEY, manifest_paths, surveyed
from vrtspike.io.files import write_json
from vrtspike.io.manifests import read_manifest
from vrtspike.system.cli import HelpFormatter, run


def split_and_size(text: str) -> tuple[str, int]:
    """Read one argument of ``--crop-sizes``."""
    split, _, size = text.rpartition("=")
    return split, int(size)


def main() -> None:
    """Parse the arguments, read all manifests and write the acceptance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--survey", type=Path, required=True, help="survey of the sequences")
    parser.add_argument(
        "--ingested",
        type=Path,
        required=True,
        help="folder of their ingest manifests, <split>/<sequence>.json",
    )
    parser.add_argument(
        "--bins",
        type=int,
        help="voxel bins (DATA.NUM_VOXEL_BINS): exposures with fewer spike frames are faults",
    )
    parser.add_argument(
        "--context", type=int, default=0, help="steps of the closed shutter (DATA.CONTEXT_STEPS)"
    )
    parser.add_argument(
        "--clip-length",
        type=int,
        default=1,
        help="frames of a clip (DATA.CLIP_LEN): shorter sequences are faults",
    )
    parser.add_argument(
        "--crop-sizes",
        type=split_and_size,
        nargs="*",
        default=[],
        metavar="SPLIT=PIXELS",
        help="side of a crop in a split (DATA.CROP_SIZE): sequences of smaller frames are faults",
    )
    parser.add_argument(
        "--on-error",
        choices=["stop", "exclude"],
        default="stop",
        help="stop with a list of all faults, or leave out the sequences that have any",
    )
    parser.add_argument("--train-split", default="train", help="split that is trained on")
    parser.add_argument("--val-split", default="test", help="split that is tested on")
    parser.add_argument(
        "--test-on-training-frames",
        action="store_true",
        help="accept test sequences that hold frames of training sequences, and say so",
    )
    parser.add_argument("--output", type=Path, required=True, help="acceptance to write (JSON)")
    arguments = parser.parse_args()
    survey = read_manifest(arguments.survey, SURVEY)
    accepted = accept(
        manifest_paths(arguments.ingested, surveyed(survey)),
        arguments.bins,
        context=arguments.context,
        clip_length=arguments.clip_length,
        crop_sizes=dict(arguments.crop_sizes),
        exclude=arguments.on_error == "exclude",
        splits=(arguments.train_split, arguments.val_split),
        test_on_training_frames=arguments.test_on_training_frames,
        surveyed=survey["excluded"],
    )
    write_json(arguments.output, accepted)
    print(f"{len(accepted['sequences'])} sequences without faults")
    for test, training in accepted["overlaps"].items():
        print(f"NOTE {test} holds frames of {training} (DATA.TEST_ON_TRAINING_FRAMES)")
    for name, faults in accepted["excluded"].items():
        print(f"EXCLUDED {name}: {'; '.join(faults)}")


if __name__ == "__main__":
    run(main)
