"""The data set as training and evaluation see it: its sequences and the training statistics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrtspike.deblurring.data.clips.requirements import require_spikes
from vrtspike.deblurring.data.manifests import DATASET, STORE
from vrtspike.deblurring.data.store.voxels import Statistics, histogram_statistics
from vrtspike.errors import ConfigError, DataError
from vrtspike.files import json_digest
from vrtspike.manifests import read_manifest

if TYPE_CHECKING:
    from vrtspike.deblurring.settings.schema import DataSettings, Settings


def merge_dataset(
    manifests: Sequence[str | Path],
    *,
    dataset: str,
    bins: int,
    folder: str | Path,
    train_split: str = "train",
    excluded: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Merge the manifests of all stores into the data set's manifest.

    Args:
        manifests: paths of the stores' manifests.
        dataset: name of the data set.
        bins: K; every store must have been built with it.
        folder: where the result will be written; the paths in it are relative to that.
        train_split: the split that mean and standard deviation are taken from, exactly.
        excluded: faults of the sequences that were left out, for the record.

    Returns:
        ``{"schema", "dataset", "bins", "blur_dir", "excluded", "splits", "statistics",
        "digest"}``. The digest covers the stores' contents, not their places; ``statistics`` is
        null in a data set without spikes.

    Raises:
        DataError: if there is no training sequence, a sequence occurs twice, stores were built
            with other bins or from other blurry frames, or only some hold spikes.
    """
    splits: dict[str, list[dict[str, Any]]] = {}
    histograms, digests = [], {}
    blur_dirs = set()
    with_spikes: dict[bool, str] = {}
    for path in sorted(Path(p) for p in manifests):
        store = read_manifest(path, STORE)
        name = f"{store['split']}/{store['sequence']}"
        if name in digests:
            raise DataError(f"{path}: sequence {name} is given twice")
        if store["bins"] != bins:
            raise DataError(f"{path}: built with {store['bins']} bins, {bins} expected")
        digests[name] = store["digest"]
        blur_dirs.add(store["blur_dir"])
        with_spikes[store["spike_size"] is not None] = name
        splits.setdefault(store["split"], []).append(
            {
                "sequence": store["sequence"],
                "manifest": Path(os.path.relpath(path, folder)).as_posix(),
                "frames": len(store["frames"]),
                "gain": store["gain"],
            }
        )
        if store["split"] == train_split:
            found = store["histogram"].items()
            histogram = {int(k): np.array(v, dtype=np.int64) for k, v in found}
            histograms.append((store["gain"], histogram))
    if not histograms:
        raise DataError(f"no sequence of the training split {train_split!r} among the manifests")
    if len(blur_dirs) > 1:
        raise DataError(f"stores from different blurry frames: {', '.join(sorted(blur_dirs))}")
    if len(with_spikes) > 1:
        raise DataError(
            f"{with_spikes[True]} holds spikes, {with_spikes[False]} does not; put the missing "
            "spike files there, or leave the sequence out"
        )
    statistics = None
    if True in with_spikes:
        statistics = asdict(histogram_statistics(histograms))
    contents: dict[str, Any] = {
        "schema": DATASET.schema,
        "dataset": dataset,
        "bins": bins,
        "blur_dir": blur_dirs.pop(),
        "excluded": dict(excluded or {}),
        "splits": {k: sorted(v, key=lambda s: s["sequence"]) for k, v in sorted(splits.items())},
        "statistics": statistics,
    }
    covered = {k: contents[k] for k in ("bins", "blur_dir", "statistics")}
    contents["digest"] = json_digest({**covered, "stores": digests})
    return contents


@dataclass(frozen=True)
class SequenceEntry:
    """One sequence of a data set."""

    split: str
    name: str
    frames: int
    store: Path
    """Folder of its Zarr store."""


@dataclass(frozen=True)
class DatasetManifest:
    """A data set manifest, read."""

    path: Path
    name: str
    bins: int
    blur_dir: str
    digest: str
    statistics: Statistics | None
    """None in a data set without spikes."""
    sequences: tuple[SequenceEntry, ...]

    def split(self, name: str) -> tuple[SequenceEntry, ...]:
        """The sequences of a split.

        Raises:
            DataError: if the data set has no such split.
        """
        found = tuple(entry for entry in self.sequences if entry.split == name)
        if not found:
            known = ", ".join(sorted({entry.split for entry in self.sequences}))
            raise DataError(f"{self.path}: no split {name!r}; there are: {known}")
        return found

    def statistics_for(self, settings: DataSettings) -> Statistics | None:
        """The statistics to normalise with: DATA.NORM where given, else the training split's.

        None in a data set without spikes.
        """
        if self.statistics is None or settings.NORM.MEAN is None or settings.NORM.STD is None:
            return self.statistics
        return Statistics(settings.NORM.MEAN, settings.NORM.STD, 0)


def load_dataset(path: str | Path) -> DatasetManifest:
    """Read a data set manifest.

    Raises:
        DataError: if it is missing or of another version.
    """
    path = Path(path)
    contents = read_manifest(path, DATASET)
    sequences = [
        SequenceEntry(
            split=split,
            name=entry["sequence"],
            frames=entry["frames"],
            store=(path.parent / entry["manifest"]).with_suffix(".zarr"),
        )
        for split, entries in contents["splits"].items()
        for entry in entries
    ]
    statistics = contents["statistics"]
    return DatasetManifest(
        path=path,
        name=contents["dataset"],
        bins=contents["bins"],
        blur_dir=contents["blur_dir"],
        digest=contents["digest"],
        statistics=Statistics(**statistics) if statistics is not None else None,
        sequences=tuple(sequences),
    )


def load_fitting_dataset(path: str | Path, settings: Settings) -> DatasetManifest:
    """Read the manifest of a data set that a trained model is to be used on.

    Raises:
        ConfigError: if it was built with other bins than the model takes, or has no spikes and the
            model needs them.
        DataError: if it is missing or of another version.
    """
    dataset = load_dataset(path)
    if dataset.bins != settings.DATA.K:
        raise ConfigError(
            f"{path}: built with {dataset.bins} bins, but DATA.K of the run is "
            f"{settings.DATA.K}; give the data set the run was trained on"
        )
    require_spikes(str(path), dataset.statistics is not None, settings)
    return dataset
