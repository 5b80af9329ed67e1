"""Read stores completely and name every damaged chunk.

Compares every chunk with its checksum and the contents with the digest of their manifest. Exits
with 2 if there is any damage.
"""

from __future__ import annotations

import argparse

from vrtspike.errors import DataError, list_faults

ADVICE = "Delete these stores with their manifests and run the workflow again."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="dataset.json, the manifest or the folder (.zarr) of a store, or a folder above them",
    )


def run(arguments: argparse.Namespace) -> None:
    """Read all stores and tell for each whether it is sound.

    Raises:
        DataError: naming all damage, after the last store.
    """
    from vrtspike.deblurring.data.store.verify import store_manifests, verify_store
    from vrtspike.progress_bar import progress_bar

    faults: list[str] = []
    manifests = dict.fromkeys(found for path in arguments.paths for found in store_manifests(path))
    for manifest in manifests:
        with progress_bar(f"verify {manifest.stem}") as progress:
            try:
                found = verify_store(manifest, progress)
            except DataError as error:
                found = [str(error)]
        faults += found
        print(f"{manifest}: {f'{len(found)} faults' if found else 'sound'}")
    if faults:
        raise DataError(list_faults("damaged stores", faults, ADVICE))
