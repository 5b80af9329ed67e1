"""Compare stores with what was written: chunks with checksums, contents with their digest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.manifests import DATASET, STORE
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.writing import ContentDigest, StoredFrame
from vrtspike.errors import DataError
from vrtspike.io.manifests import read_manifest

DATASET_FILE = "dataset.json"


def store_manifests(path: str | Path) -> list[Path]:
    """Manifests of the stores that a path stands for.

    Args:
        path: a data set's manifest (``dataset.json``), one store's manifest, a store
            (``<sequence>.zarr``), or a folder that is searched for data sets.

    Raises:
        DataError: if there is no data set in the folder, or its manifest cannot be read.
    """
    path = Path(path)
    if path.is_dir() and path.suffix != ".zarr":
        found = sorted(path.rglob(DATASET_FILE))
        if not found:
            raise DataError(f"{path}: no data set ({DATASET_FILE}) below it; give another folder")
        return [manifest for each in found for manifest in store_manifests(each)]
    if path.name != DATASET_FILE:
        return [path.with_suffix(".json")]
    splits = read_manifest(path, DATASET)["splits"]
    return [
        path.parent / split / f"{e['sequence']}.json" for split in splits for e in splits[split]
    ]


def verify_store(
    manifest_path: str | Path, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Read a whole store and say what is wrong with it.

    Args:
        manifest_path: the store's manifest.
        progress: called with the frames done and their total.

    Returns:
        A line for each damaged or missing chunk, or one on contents that are whole but not those
        of the manifest; empty for a sound store.

    Raises:
        DataError: if the manifest or the store's metadata cannot be read.
    """
    path = Path(manifest_path)
    manifest = read_manifest(path, STORE)
    store = Store(path.with_name(manifest["store"]))
    digest = ContentDigest(store.layout)
    faults: list[str] = []
    layout = store.layout
    for number in range(len(layout.frames)):
        if progress:
            progress(number, len(layout.frames))
        frame: dict[str, Any] = {}
        for name in layout.shapes:
            try:
                whole = store.read(name, slice(number, number + 1), slice(None), slice(None))[0]
            except DataError:
                faults += _damaged_chunks(store, name, number)
            else:
                frame[name] = whole[: layout.spike_frames[number]] if name == "bits" else whole
        if not faults:
            digest.add(StoredFrame(**frame))
    if not faults and digest.hexdigest(store.gain) != manifest["digest"]:
        faults.append(
            f"{store.path}: every chunk is whole, but the contents are not those that "
            f"{path.name} was written for; delete the store and run snakemake again"
        )
    return faults


def _damaged_chunks(store: Store, name: str, number: int) -> Iterator[str]:
    """Read the chunks of one frame one by one and name those that fail."""
    layout = store.layout
    shape, chunk = layout.shapes[name], layout.chunks[name]
    rows, columns = (2, 3) if name in ("voxels", "bits") else (1, 2)
    file = f"{name}/c/{number // layout.shard_frames}" + "/0" * (len(shape) - 1)
    for top, left in itertools.product(
        range(0, shape[rows], chunk[rows]), range(0, shape[columns], chunk[columns])
    ):
        bottom = min(top + chunk[rows], shape[rows])
        right = min(left + chunk[columns], shape[columns])
        try:
            store.read(name, slice(number, number + 1), slice(top, bottom), slice(left, right))
        except DataError:
            yield (
                f"{store.path}: {name} of frame {layout.frames[number]}, rows {top} to "
                f"{bottom - 1}, columns {left} to {right - 1} ({file})"
            )
