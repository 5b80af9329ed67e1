"""The command ``vrtspike``: what is done by hand, beside the workflow."""

from __future__ import annotations

import argparse
import sys

from vrtspike import cli
from vrtspike.errors import DataError, list_faults


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vrtspike", description="Video deblurring with spikes.")
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser(
        "verify",
        help="read stores completely and name every damaged chunk",
        description="Read stores completely, compare every chunk with its checksum and the "
        "contents with the digest of their manifest, and name all damage. Exits with 2 if there "
        "is any.",
    )
    verify.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="dataset.json, the manifest or the folder (.zarr) of a store, or a folder above them",
    )
    why = commands.add_parser(
        "why",
        help="tell why stages would run, and what they cost last time",
        description="One line per stage that `snakemake TARGET` would run: why it is stale, and "
        "what it cost last time. Trained presets whose code has changed are named, too. Nothing "
        "is run.",
        epilog="Options of snakemake follow the targets: vrtspike why all --configfile my.yaml",
    )
    why.add_argument("targets", nargs=argparse.REMAINDER, metavar="TARGET", help="default: all")
    return parser


def _verify(paths: list[str]) -> None:
    # Imported here: --help shall not wait for the array libraries.
    from vrtspike.data.store.verify import store_manifests, verify_store
    from vrtspike.progress_bar import progress_bar

    faults: list[str] = []
    manifests = dict.fromkeys(found for path in paths for found in store_manifests(path))
    for manifest in manifests:
        with progress_bar(f"verify {manifest.stem}") as progress:
            try:
                found = verify_store(manifest, progress)
            except DataError as error:
                found = [str(error)]
        faults += found
        print(f"{manifest}: {f'{len(found)} faults' if found else 'sound'}")
    if faults:
        advice = "Delete these stores with their manifests and run the workflow again."
        raise DataError(list_faults("damaged stores", faults, advice))


def _why(arguments: list[str]) -> None:
    from vrtspike.planning.why import print_stages

    print_stages(arguments)


def _run() -> None:
    arguments = _parser().parse_args(sys.argv[1:])
    if arguments.command == "verify":
        _verify(arguments.paths)
    elif arguments.command == "why":
        _why(arguments.targets)


def main() -> None:
    """Run the command line and leave with its status."""
    cli.run(_run)


if __name__ == "__main__":
    main()
