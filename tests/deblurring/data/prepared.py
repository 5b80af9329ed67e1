"""Raw data checked, built and merged, as the stages of the workflow do it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.clips.dataset import merge_dataset
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.io.files import write_json


def check(root: Path, name: str, blur_dir: str = "blur", **options: Any) -> dict[str, Any]:
    """The manifest of a sequence, which is named ``split/sequence``."""
    split, _, sequence = name.partition("/")
    return ingest_sequence(root, split, sequence, blur_dir=blur_dir, source_version="v", **options)


def checked(root: Path, names: Iterable[str], folder: Path, **changes: Any) -> list[Path]:
    """Files of the manifests of sequences, with other entries if asked."""
    paths = []
    for name in names:
        paths.append(folder / f"{name}.json")
        write_json(paths[-1], {**check(root, name), **changes})
    return paths


def built(root: Path, names: Iterable[str], folder: Path, bins: int) -> list[Path]:
    """Manifests of the stores of sequences."""
    stores = []
    for name in names:
        (manifest,) = checked(root, [name], folder / "ingest")
        stores.append(folder / f"k{bins}" / f"{name}.json")
        build_store(root, manifest, bins, stores[-1])
    return stores


def prepared(root: Path, names: Iterable[str], folder: Path, bins: int) -> Path:
    """The manifest of a data set."""
    path = folder / f"k{bins}" / "dataset.json"
    stores = built(root, names, folder, bins)
    write_json(path, merge_dataset(stores, dataset=folder.name, bins=bins, folder=path.parent))
    return path
