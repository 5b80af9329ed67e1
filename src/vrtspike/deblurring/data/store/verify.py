"""Compare stores with what was written: chunks with checksums, contents with their digest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from vrtspike.deblurring.data.manifests import DATASET, STORE
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.writing import ContentDigest, StoredFrame
from vrtspike.errors import DataError
from vrtspike.io.manifests import read_manifest


def store_manifests(dataset: Path) -> list[Path]:
    """Manifests of the stores of a data set.

    Args:
        dataset: its manifest, ``dataset.json``.

    Raises:
        DataError: if it cannot be read.
    """
    splits = read_manifest(dataset, DATASET)["splits"]
    return [
        dataset.parent / split / f"{e['sequence']}.json" for split in splits for e in splits[split]
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
    store = Store(path.with_suffix(".zarr"))
    digest = ContentDigest(store.layout)
    faults: list[str] = []
    layout = store.layout
    for number in range(len(layout.frames)):
        if progress:
            progress(number, len(layout.frames))
        frame: StoredFrame = {}
        for name in layout.shapes:
            try:
                whole = store.read(name, slice(number, number + 1), slice(None), slice(None))[0]
            except DataError:
                faults += _damaged_chunks(store, name, number)
            else:
                frame[name] = whole[: layout.spike_frames[number]] if name == "bits" else whole
        if not faults:
            digest.add(number, frame)
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
