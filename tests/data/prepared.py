"""Raw data checked, built and merged, as the stages of the workflow do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.data.conftest import SEQUENCES
from vrtspike.data.checks.ingest import ingest_sequence
from vrtspike.data.clips.merging import merge_dataset
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.store.metadata import StoreMetadata
from vrtspike.data.store.writing import StoredFrame, build_store
from vrtspike.data.voxels.counting import voxelize
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import write_json


def check(
    root: Path,
    name: str = SEQUENCES[0],
    blur_dir: str = "blur",
    spike_size: tuple[int, int] | None = None,
    **places: Any,
) -> dict[str, Any]:
    """The manifest of a sequence, which is named ``split/sequence``."""
    files = find_sequence(RawFolder(root, blur_dir, **places), name)
    manifest = ingest_sequence(root, files, spike_size)
    return {**manifest, "source_version": "v", "recipe": ""}


def checked(root: Path, names: Iterable[str], folder: Path, **changes: Any) -> list[Path]:
    """Files of the manifests of sequences, with other entries if asked."""
    paths = []
    for name in names:
        paths.append(folder / f"{name}.json")
        write_json(paths[-1], {**check(root, name), **changes})
    return paths


def built(
    root: Path, names: Iterable[str], folder: Path, bins: int, context: int = 0
) -> list[Path]:
    """Manifests of the stores of sequences."""
    stores = []
    for name in names:
        (manifest,) = checked(root, [name], folder / "ingest")
        stores.append(folder / f"k{bins}" / f"{name}.json")
        build_store(root, manifest, StoreOptions(bins=bins, context=context), stores[-1])
    return stores


def prepared(root: Path, names: Iterable[str], folder: Path, bins: int) -> Path:
    """The manifest of a data set."""
    path = folder / f"k{bins}" / "dataset.json"
    built(root, names, folder, bins)
    write_json(path, merged(path.parent, names))
    return path


def merged(
    stores: Path, names: Iterable[str], excluded: Any = None, train_split: str = "train"
) -> dict[str, Any]:
    """The contents of the manifest of a data set, of stores in a folder."""
    accepted = {"sequences": list(names), "excluded": excluded or {}, "overlaps": {}}
    return merge_dataset(accepted, stores, dataset_name="toy", train_split=train_split)


def store_metadata(
    lengths: Sequence[int], rgb_size: tuple[int, int], spike_size: tuple[int, int], bins: int = 4
) -> StoreMetadata:
    """The metadata of a store with exposures of Spk-GoPro of these lengths."""
    names = tuple(f"{number:06d}" for number in range(len(lengths)))
    exposures = tuple(map(spk_gopro_exposure, lengths))
    return StoreMetadata(names, tuple(lengths), rgb_size, spike_size, bins, exposures)


def random_frames(metadata: StoreMetadata, seed: int = 0) -> Iterator[StoredFrame]:
    """Random frames and spikes as the metadata says, with the counts of these spikes."""
    assert metadata.spike_size is not None
    random = np.random.default_rng(seed)
    for exposure in metadata.exposures:
        spikes = random.integers(0, 2, (exposure.steps, *metadata.spike_size), dtype=np.uint8)
        blur, sharp = random.integers(0, 256, (2, *metadata.rgb_size, 3), dtype=np.uint8)
        voxels = voxelize(spikes, metadata.bins, exposure.sharp)
        yield {
            "blur": blur,
            "sharp": sharp,
            "voxels": voxels,
            "bits": PackedSpikes.pack(spikes).rows,
        }
