"""Command ``vrtspike data``: the public data sets, and the completeness of a folder of one."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.system.errors import ConfigError


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "action", nargs="?", choices=["check"], help="compare the folder PATH with the table"
    )
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="folder of a data set")
    parser.add_argument(
        "--spike-root",
        metavar="FOLDER",
        help="folder of the spikes if they are not beside the frames (DATA.SPIKE_ROOT)",
    )


def run_data(arguments: argparse.Namespace) -> int:
    """List the public data sets that the package reads, or check a folder of one.

    Without arguments: source, size, licence and layout, and the page that states each fact.
    With check PATH: the set that the folder looks like, and the splits, sequences, frames and
    spikes that are missing. The exit status is 0 if nothing is missing, else 1.
    """
    from vrtspike.commands.public_sets.table import describe_set, read_public_sets

    sets = read_public_sets()
    if arguments.action is None:
        if arguments.spike_root is not None:
            raise ConfigError(
                f"--spike-root {arguments.spike_root}: found no PATH to check, expected: vrtspike "
                "data check PATH --spike-root FOLDER"
            )
        print("\n\n".join("\n".join(describe_set(public_set)) for public_set in sets))
        return 0
    if arguments.path is None:
        raise ConfigError("vrtspike data check: found no PATH, expected that of a data set; add it")
    from vrtspike.commands.public_sets.folders import report_folder

    faults = report_folder(arguments.path, arguments.spike_root, sets)
    for fault in faults:
        print(f"! {fault}")
    print(f"incomplete ({len(faults)})" if faults else "complete")
    return 1 if faults else 0
