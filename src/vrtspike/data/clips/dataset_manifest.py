"""The data set of a training or an evaluation: its sequences and the training statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.data.clips.requirements import require_sequences_to_hold_out, require_spikes
from vrtspike.data.manifests import DATASET
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.manifests import read_manifest
from vrtspike.system.errors import ConfigError, DataError

if TYPE_CHECKING:
    from vrtspike.deblurring_settings.data import DataSettings
    from vrtspike.deblurring_settings.schema import DeblurringSettings

HELD_OUT = "train, held out"
"""Split of the sequences that are held out for validation, apart from the test split."""


@dataclass(frozen=True)
class SequenceEntry:
    """A sequence of a data set.

    Attributes:
        split: its split, such as ``train``.
        name: its name.
        frames: number of its frames.
        store: folder of its Zarr store.
        limits: ranges of the recording; None in a data set without spikes, or one that was merged
            before limits were stored.
    """

    split: str
    name: str
    frames: int
    store: Path
    limits: RecordingLimits | None = None


@dataclass(frozen=True)
class DatasetManifest:
    """The manifest of a data set.

    Attributes:
        path: path of the manifest, ``dataset.json``.
        name: name of the data set.
        stores: options that its stores were built with.
        blur_dir: kind of its blurry frames, ``blur`` or ``blur_gamma``.
        digest: digest of its contents.
        statistics: mean and standard deviation of the voxels; None in a data set without spikes.
        sequences: all sequences, of every split.
        overlaps: training sequences by the test sequence that holds frames of them.
        held_out: training sequences for validation, unless DATA.VALIDATION is test.
    """

    path: Path
    name: str
    stores: StoreOptions
    blur_dir: str
    digest: str
    statistics: VoxelStatistics | None
    sequences: tuple[SequenceEntry, ...]
    overlaps: Mapping[str, str] = field(default_factory=dict)
    held_out: tuple[str, ...] = ()

    def with_validation_split(self, settings: DataSettings) -> DatasetManifest:
        """Return the data set as a training sees it: held-out sequences are a split of their own.

        Raises:
            ConfigError: if a sequence has to be held out and there is only one.
        """
        if settings.VALIDATION == "test":
            return self
        if not self.held_out:
            require_sequences_to_hold_out(str(self.path), 1, settings)
        held_out = {(settings.TRAIN_SPLIT, name) for name in self.held_out}
        sequences = []
        for entry in self.sequences:
            if (entry.split, entry.name) in held_out:
                sequences.append(replace(entry, split=HELD_OUT))
            else:
                sequences.append(entry)
        return replace(self, sequences=tuple(sequences))

    def require_stores(self, settings: DataSettings) -> None:
        """Reject settings that other stores have to be built for.

        Raises:
            ConfigError: naming the key.
        """
        wanted = StoreOptions.from_settings(settings).by_key
        for key, built in self.stores.by_key.items():
            self._require_equal(key, built, wanted[key])

    def require_blur(self, settings: DataSettings) -> None:
        """Reject settings for other blurry frames.

        Raises:
            ConfigError: naming the key.
        """
        self._require_equal("DATA.BLUR_DIR", self.blur_dir, settings.BLUR_DIR)

    def _require_equal(self, key: str, built: object, wanted: object) -> None:
        if wanted != built:
            raise ConfigError(
                f"{self.path}: built with {key} {built}, the settings say {wanted}; "
                "give a data set that was built with these settings, as the workflow does"
            )

    def split(self, name: str) -> tuple[SequenceEntry, ...]:
        """Return the sequences of a split.

        Raises:
            DataError: if the data set has no such split.
        """
        entries = tuple(entry for entry in self.sequences if entry.split == name)
        if not entries:
            names = ", ".join(sorted({entry.split for entry in self.sequences}))
            raise DataError(f"{self.path}: no split {name!r}; there are: {names}")
        return entries

    def statistics_for(self, settings: DataSettings) -> VoxelStatistics | None:
        """Return the statistics to normalise with: DATA.NORM if given, else the training split's.

        None in a data set without spikes.
        """
        mean = settings.NORM.MEAN
        std = settings.NORM.STD
        if self.statistics is None or mean is None or std is None:
            return self.statistics
        return VoxelStatistics(mean, std, 0)


def load_dataset(path: str | Path) -> DatasetManifest:
    """Read a data set manifest.

    Raises:
        DataError: if it is missing or of another version.
    """
    path = Path(path)
    contents = read_manifest(path, DATASET)
    statistics = contents["statistics"]
    sequences = []
    for split, entries in contents["splits"].items():
        for entry in entries:
            name = entry["sequence"]
            store = path.parent / split / f"{name}.zarr"
            limits = entry.get("limits")
            ranges = RecordingLimits.parse(limits) if limits else None
            sequences.append(SequenceEntry(split, name, entry["frames"], store, ranges))
    return DatasetManifest(
        path=path,
        name=contents["dataset"],
        stores=StoreOptions.from_manifest(contents),
        blur_dir=contents["blur_dir"],
        digest=contents["digest"],
        statistics=VoxelStatistics(**statistics) if statistics is not None else None,
        sequences=tuple(sequences),
        overlaps=contents["overlaps"],
        held_out=tuple(contents["held_out"]),
    )


def load_fitting_dataset(path: str | Path, settings: DeblurringSettings) -> DatasetManifest:
    """Read the manifest of a data set for a trained model.

    Raises:
        ConfigError: if it was built with other bins or context than the model takes, or has no
            spikes and the model needs them.
        DataError: if it is missing or of another version.
    """
    manifest = load_dataset(path)
    manifest.require_stores(settings.DATA)
    require_spikes(str(path), manifest.statistics is not None, settings)
    return manifest
