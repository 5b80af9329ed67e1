"""Merge the manifests of all stores into the manifest of the data set."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from vrtspike.data.clips.recording_limits import limits_of_store
from vrtspike.data.manifests import (
    DATASET,
    STORE,
    Acceptance,
    DatasetContents,
    StatisticsEntry,
    StoredSequenceEntry,
    StoreManifest,
)
from vrtspike.data.voxels.normalization import histogram_statistics
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import json_digest
from vrtspike.io.manifests import read_manifest
from vrtspike.system.errors import DataError


def held_out(names: Sequence[str]) -> list[str]:
    """Return the training sequences that are held out for validation: a tenth, at least one.

    The choice is deterministic: the names with the smallest SHA-256. Sequences that are cut from
    one recording look alike (``GOPR0372_07_00`` and ``_01``), so those of recordings with the
    fewest sequences come first.

    Returns:
        their names, sorted; none of a single sequence.

    >>> held_out(["a", "b", "c_00", "c_01"])
    ['b']
    """
    if len(names) < 2:
        return []
    recordings = {name: re.sub(r"_\d+$", "", name) for name in names}
    sequences = Counter(recordings.values())

    def rank(name: str) -> tuple[int, str]:
        return sequences[recordings[name]], hashlib.sha256(name.encode()).hexdigest()

    count = max(1, round(len(names) / 10))
    return sorted(sorted(names, key=rank)[:count])


def merge_dataset(
    accepted: Acceptance, stores: Path, *, dataset_name: str, train_split: str = "train"
) -> DatasetContents:
    """Merge the manifests of all stores into the data set's manifest.

    Args:
        accepted: the acceptance: the sequences; for the record, the faults of those that were
            left out, and the test sequences that hold frames of a training sequence.
        stores: folder of the stores and their manifests, and of the result.
        dataset_name: name of the data set.
        train_split: the split that mean and standard deviation are taken from, exactly.

    Returns:
        the contents of the manifest. The digest covers the stores' contents, not their places.

    Raises:
        DataError: if there is no training sequence, stores were built with different settings or
            from other blurry frames, or only some hold spikes.
    """
    manifests = {
        name: read_manifest(stores / f"{name}.json", STORE) for name in accepted["sequences"]
    }
    trained = [store for store in manifests.values() if store["split"] == train_split]
    if not trained:
        raise DataError(f"{stores}: no sequence of the training split {train_split!r}")
    _require_one_kind(stores, manifests)
    splits: dict[str, list[StoredSequenceEntry]] = {}
    for _, store in sorted(manifests.items()):
        entry: StoredSequenceEntry = {
            "sequence": store["sequence"],
            "frames": len(store["frames"]),
            "gain": store["gain"],
            "limits": limits_of_store(store),
        }
        splits.setdefault(store["split"], []).append(entry)
    first = trained[0]
    statistics: StatisticsEntry | None = None
    if first["spike_size"] is not None:
        histograms = []
        for store in trained:
            assert store["gain"] is not None, "stores with spikes have a gain"
            histograms.append((store["gain"], store["histogram"]))
        merged = histogram_statistics(histograms)
        statistics = {"mean": merged.mean, "std": merged.std, "count": merged.count}
    options = StoreOptions.from_manifest(first)
    covered = {
        "blur_dir": first["blur_dir"],
        "statistics": statistics,
        "stores": {name: store["digest"] for name, store in manifests.items()},
    }
    contents: DatasetContents = {
        "blur_dir": first["blur_dir"],
        "statistics": statistics,
        "schema": DATASET.schema,
        "dataset": dataset_name,
        "excluded": accepted["excluded"],
        "overlaps": accepted["overlaps"],
        "splits": splits,
        "held_out": held_out([entry["sequence"] for entry in splits[train_split]]),
        "digest": json_digest(options.add_to(covered)),
    }
    return options.add_to(contents)


def _require_one_kind(folder: Path, manifests: Mapping[str, StoreManifest]) -> None:
    """Reject stores of which some were built with other settings, or some hold no spikes."""
    kinds: dict[str, str] = {}
    for name, store in sorted(manifests.items()):
        spikes = "no spikes" if store["spike_size"] is None else "spikes"
        options = StoreOptions.from_manifest(store)
        keys = ", ".join(f"{key} {value}" for key, value in options.by_key.items())
        kind = f"{keys}, {store['blur_dir']}, {spikes}"
        kinds.setdefault(kind, f"{name}: {kind}")
    if len(kinds) > 1:
        raise DataError(
            f"{folder}: stores of different kinds, expected one ({'; '.join(kinds.values())}); put "
            "missing spike files there, or leave the sequence out, and run the workflow"
        )
