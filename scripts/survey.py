"""Find the sequences of a data set.

The survey also lists sequences with faults; scripts/accept.py turns all faults into one error.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.survey import survey
from vrtspike.io.files import write_json
from vrtspike.system.errors import named_faults
from vrtspike.system.options import HelpFormatter, add_options
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments and write the survey."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    add_options(parser, RawFolder, "folder of the raw files")
    parser.add_argument("--dataset-name", help="name used in messages; default: the folder's name")
    parser.add_argument("--splits", nargs="+", default=["train", "test"], help="splits to look for")
    parser.add_argument("--output", type=Path, required=True, help="survey to write (JSON)")
    arguments = parser.parse_args()
    sequences = survey(arguments.options, arguments.splits)
    write_json(arguments.output, sequences)
    frames = sum(sequence["frames"] for sequence in sequences["sequences"])
    name = arguments.dataset_name or Path(arguments.options.root).name
    spikes = "" if sequences["spikes"] else ", without spikes"
    count = len(sequences["sequences"])
    print(f"{name}: {count} sequences, {frames} frames, {sequences['layout']}{spikes}")
    for fault in named_faults(sequences["excluded"]):
        print(f"  - {fault}")
    passed_over = sequences.get("passed_over")
    if passed_over:
        names = ", ".join(passed_over)
        print(f"passed over, {len(passed_over)} folders that are no sequences: {names}")


if __name__ == "__main__":
    run_main(main)
