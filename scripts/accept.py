"""Accept a data set if no sequence has a fault; else list every fault of every sequence."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.data.checks.accept import accept
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.data.manifests import SURVEY, manifest_paths, surveyed_sequences
from vrtspike.io.files import write_json
from vrtspike.io.manifests import read_manifest
from vrtspike.system.options import HelpFormatter, add_options
from vrtspike.system.program import run_main


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
    add_options(parser, AcceptOptions, "requirements on the sequences")
    parser.add_argument("--output", type=Path, required=True, help="acceptance to write (JSON)")
    arguments = parser.parse_args()
    survey = read_manifest(arguments.survey, SURVEY)
    accepted = accept(
        manifest_paths(arguments.ingested, surveyed_sequences(survey)),
        arguments.options,
        survey_faults=survey["excluded"],
    )
    write_json(arguments.output, accepted)
    print(f"{len(accepted['sequences'])} sequences without faults")
    for test, training in accepted["overlaps"].items():
        print(f"NOTE {test} holds frames of {training} (DATA.TEST_ON_TRAINING_FRAMES)")
    for name, faults in accepted["excluded"].items():
        print(f"EXCLUDED {name}: {'; '.join(faults)}")


if __name__ == "__main__":
    run_main(main)
