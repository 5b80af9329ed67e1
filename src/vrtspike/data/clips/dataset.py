"""The data set as training and evaluation see it: its sequences and the training statistics."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.data.clips.limits import Limits, store_limits, training_limits
from vrtspike.data.clips.requirements import require_sequences_to_hold_out, require_spikes
from vrtspike.data.manifests import DATASET, STORE
from vrtspike.data.store.voxels import Statistics, histogram_statistics
from vrtspike.io.files import json_digest, read_json
from vrtspike.io.manifests import read_manifest
from vrtspike.runs.named_models import start_file
from vrtspike.runs.names import STATISTICS
from vrtspike.system.errors import ConfigError, DataError, RunError

if TYPE_CHECKING:
    from vrtspike.settings.data import DataSettings
    from vrtspike.settings.schema import Settings

HELD_OUT = "train, held out"
"""What the split of the sequences is called that validation looks at, apart from the test split."""

_BUILT_WITH = {"NUM_VOXEL_BINS": "bins", "CONTEXT_STEPS": "context", "BLUR_DIR": "blur_dir"}
"""Keys of DATA that a data set is built with, and what its manifest calls them."""


def held_out(names: Sequence[str]) -> list[str]:
    """The training sequences that are held out for validation: a tenth, at least one.

    Those whose names have the smallest SHA-256: no choice of anyone's, and the same everywhere.
    Sequences that are cut from one recording look alike (``GOPR0372_07_00`` and ``_01``), so those
    of recordings with the fewest sequences come first.

    Returns:
        their names, sorted; none of a single one.

    >>> held_out(["a", "b", "c_00", "c_01"])
    ['b']
    """
    count = max(1, round(len(names) / 10)) if len(names) > 1 else 0
    recordings = {name: re.sub(r"_\d+$", "", name) for name in names}
    sequences = Counter(recordings.values())
    ordered = sorted(
        names,
        key=lambda name: (sequences[recordings[name]], hashlib.sha256(name.encode()).hexdigest()),
    )
    return sorted(ordered[:count])


def merge_dataset(
    accepted: Mapping[str, Any], stores: Path, *, dataset: str, train_split: str = "train"
) -> dict[str, Any]:
    """Merge the manifests of all stores into the data set's manifest.

    Args:
        accepted: the acceptance: which sequences; for the record, the faults of those that were
            left out, and which test sequences hold frames of a training sequence.
        stores: folder of the stores and their manifests, and of the result.
        dataset: name of the data set.
        train_split: the split that mean and standard deviation are taken from, exactly.

    Returns:
        ``{"schema", "dataset", "bins", "context", "blur_dir", "excluded", "overlaps", "splits",
        "held_out", "statistics", "digest"}``. The digest covers the stores' contents, not their
        places; ``statistics`` is null in a data set without spikes.

    Raises:
        DataError: if there is no training sequence, stores were built with different settings or
            from other blurry frames, or only some hold spikes.
    """
    found = {name: read_manifest(stores / f"{name}.json", STORE) for name in accepted["sequences"]}
    trained = [store for store in found.values() if store["split"] == train_split]
    if not trained:
        raise DataError(f"{stores}: no sequence of the training split {train_split!r}")
    splits: dict[str, list[dict[str, Any]]] = {}
    kinds: dict[str, str] = {}
    for name, store in sorted(found.items()):
        spikes = "no spikes" if store["spike_size"] is None else "spikes"
        context = f"{store['context']} steps of context"
        kind = f"{store['bins']} bins, {context}, {store['blur_dir']}, {spikes}"
        kinds.setdefault(kind, f"{name}: {kind}")
        entry: dict[str, Any] = {"sequence": store["sequence"], "frames": len(store["frames"])}
        entry |= {"gain": store["gain"], "limits": store_limits(store)}
        splits.setdefault(store["split"], []).append(entry)
    if len(kinds) > 1:
        raise DataError(
            f"{stores}: stores of different kinds, expected one ({'; '.join(kinds.values())}); put "
            "missing spike files there, or leave the sequence out, and run the workflow"
        )
    digests = {name: store["digest"] for name, store in found.items()}
    histograms = [(store["gain"], store["histogram"]) for store in trained]
    has_spikes = trained[0]["spike_size"] is not None
    covered = {
        **{key: trained[0][key] for key in ("bins", "context", "blur_dir")},
        "statistics": asdict(histogram_statistics(histograms)) if has_spikes else None,
    }
    return {
        **covered,
        "schema": DATASET.schema,
        "dataset": dataset,
        "excluded": accepted["excluded"],
        "overlaps": accepted["overlaps"],
        "splits": splits,
        "held_out": held_out([each["sequence"] for each in splits[train_split]]),
        "digest": json_digest({**covered, "stores": digests}),
    }


@dataclass(frozen=True)
class SequenceEntry:
    """One sequence of a data set."""

    split: str
    name: str
    frames: int
    store: Path
    """Folder of its Zarr store."""
    limits: Limits | None = None
    """None in a data set without spikes, or one that was merged before limits were stored."""


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
    overlaps: Mapping[str, str] = field(default_factory=dict)
    """A training sequence by the test sequence that holds frames of it."""
    held_out: tuple[str, ...] = ()
    """Training sequences that validation looks at, unless DATA.VALIDATION is test."""
    context: int = 0
    """Most steps of the closed shutter that bins hold, on each side."""

    def divided(self, settings: DataSettings) -> DatasetManifest:
        """The data set as a training sees it: what is held out is a split of its own.

        Raises:
            ConfigError: if a sequence should be held out and there is a single one.
        """
        if settings.VALIDATION == "test":
            return self
        if not self.held_out:
            require_sequences_to_hold_out(str(self.path), 1, settings)
        held_out = {(settings.TRAIN_SPLIT, name) for name in self.held_out}
        sequences = (
            replace(entry, split=HELD_OUT) if (entry.split, entry.name) in held_out else entry
            for entry in self.sequences
        )
        return replace(self, sequences=tuple(sequences))

    def require(self, settings: DataSettings, *keys: str) -> None:
        """Refuse settings that another data set has to be built for.

        Args:
            settings: DATA.
            keys: which of NUM_VOXEL_BINS, CONTEXT_STEPS and BLUR_DIR.

        Raises:
            ConfigError: naming the key.
        """
        for key in keys:
            asked, built = getattr(settings, key), getattr(self, _BUILT_WITH[key])
            if asked != built:
                raise ConfigError(
                    f"{self.path}: built with DATA.{key} {built}, the settings say {asked}; "
                    "give a data set that was built with these settings, as the workflow does"
                )

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
    statistics = contents["statistics"]
    return DatasetManifest(
        path=path,
        name=contents["dataset"],
        statistics=Statistics(**statistics) if statistics is not None else None,
        sequences=tuple(
            SequenceEntry(
                split,
                each["sequence"],
                each["frames"],
                folder / f"{each['sequence']}.zarr",
                Limits.parse(each["limits"]) if each.get("limits") else None,
            )
            for split, entries in contents["splits"].items()
            for folder in (path.parent / split,)
            for each in entries
        ),
        held_out=tuple(contents["held_out"]),
        **{key: contents[key] for key in ("bins", "context", "blur_dir", "digest", "overlaps")},
    )


def load_fitting_dataset(path: str | Path, settings: Settings) -> DatasetManifest:
    """Read the manifest of a data set that a trained model is to be used on.

    Raises:
        ConfigError: if it was built with other bins or context than the model takes, or has no
            spikes and the model needs them.
        DataError: if it is missing or of another version.
    """
    dataset = load_dataset(path)
    dataset.require(settings.DATA, "NUM_VOXEL_BINS", "CONTEXT_STEPS")
    require_spikes(str(path), dataset.statistics is not None, settings)
    return dataset


def run_statistics(settings: Settings, manifest: Path) -> dict[str, Any]:
    """Mean, standard deviation and count of the voxels that a run standardises with.

    Those of :func:`training_statistics`; null for a model without spikes. Beside them the bins,
    name and digest of the data set, and the limits of the training (:class:`Limits`) where it has
    them. Weights that stay as they come keep the whole file, because they learn from no other data.

    Raises:
        DataError: if the data set is not there.
        RunError: if the statistics of the trained model that a run starts from are missing or
            damaged.
    """
    if settings.kept_start is not None:
        folder = start_file(settings.kept_start).parent
        read_statistics(folder)
        kept: dict[str, Any] = read_json(folder / STATISTICS)
        return kept
    dataset = load_dataset(manifest)
    statistics = training_statistics(settings, dataset) if settings.MODEL.USE_SPIKE else None
    contents = {
        "dataset": dataset.name,
        "dataset_digest": dataset.digest,
        "bins": dataset.bins,
        "statistics": None if statistics is None else asdict(statistics),
    }
    limits = _run_limits(settings, dataset) if settings.MODEL.USE_SPIKE else None
    if limits is not None:
        contents["limits"] = limits.contents()
    return contents


def _run_limits(settings: Settings, dataset: DatasetManifest) -> Limits | None:
    """The ranges of the sequences that a run is trained on; None where the data set has none."""
    data = settings.DATA
    held_out = dataset.held_out if data.VALIDATION != "test" else ()
    trained = [
        entry.limits
        for entry in dataset.sequences
        if entry.split == data.TRAIN_SPLIT and entry.name not in held_out
    ]
    return training_limits(trained, data)


def training_statistics(settings: Settings, dataset: DatasetManifest) -> Statistics | None:
    """The statistics that a training standardises voxels with.

    Those of the trained model that it starts from, as its weights expect them; else DATA.NORM, else
    those of the training split. None in a data set without spikes.

    Raises:
        RunError: if the statistics of that model are missing or damaged.
    """
    statistics = dataset.statistics_for(settings.DATA)
    start = settings.MODEL.PRETRAINED
    if start is None or statistics is None or not settings.MODEL.USE_SPIKE:
        return statistics
    return read_statistics(start_file(start).parent)


def read_statistics(folder: Path) -> Statistics | None:
    """What the spikes of a run's model are standardised with; None for a model without spikes.

    Args:
        folder: of a run, or of its published result.

    Raises:
        RunError: if the file is missing, or is not such a file.
    """
    return _read_run_statistics(folder)[0]


def read_limits(folder: Path) -> Limits | None:
    """The recordings that a run was trained on; None of a run that was published without them.

    Args:
        folder: of a run, or of its published result.

    Raises:
        RunError: if the file is missing, or is not such a file.
    """
    return _read_run_statistics(folder)[1]


def learned_dataset(folder: Path) -> tuple[str, str]:
    """Name and digest of the data set that the weights of a run have learned from.

    Args:
        folder: of a run, or of its published result.

    Raises:
        RunError: if the file is missing, or is not such a file.
    """
    read_statistics(folder)
    contents = read_json(folder / STATISTICS)
    return contents.get("dataset", "of an unknown name"), contents.get("dataset_digest", "")


def _read_run_statistics(folder: Path) -> tuple[Statistics | None, Limits | None]:
    """Statistics and limits of a run; each None where the run has none.

    Raises:
        RunError: if the file is missing, or is not such a file.
    """
    path = folder / STATISTICS
    try:
        contents = read_json(path)
        statistics = contents["statistics"]
        limits = contents.get("limits")
        return (
            None if statistics is None else Statistics(**statistics),
            None if limits is None else Limits.parse(limits),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path}: missing, damaged, or not the statistics of a run ({error!r}); copy the whole "
            "result folder again, or remove the file and train the preset again: a finished run is "
            "only published again"
        ) from error
