"""The clips of a split: crops of consecutive frames with their spikes, chosen by seed and epoch.

:func:`vrtspike.data.clips.batches.prepare_batch` turns batches of them into a model's inputs, once,
on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch.utils.data import Dataset

from vrtspike.data.clips.augmentation import (
    Flips,
    add_sensor_faults,
    change_ratio,
    draw_ratio_change,
    flip_sample,
    raise_threshold,
)
from vrtspike.data.clips.dataset_manifest import DatasetManifest
from vrtspike.data.clips.samples import (
    BinnedSpikes,
    Sample,
    pad_absent_neighbors,
    read_clip,
    stack_samples,
)
from vrtspike.data.store.metadata import StoreMetadata
from vrtspike.data.store.reading import Store, cache_stats
from vrtspike.monitoring.cache_stats import CacheStats
from vrtspike.system.errors import ConfigError, DataError, list_faults

if TYPE_CHECKING:
    from vrtspike.deblurring_settings.data import DataSettings


class ClipDataset(Dataset[Sample]):
    """All clips of a split.

    Training (``train=True``): every start frame gives a clip. The following depend on (seed, epoch,
    index) only, not on workers, ranks or a resumed run:

    - the place of the crop;
    - DATA.NEIGHBOURS: the clips that are left without neighbours;
    - DATA.AUGMENT: flips and transposition;
    - DATA.THRESHOLD_AUGMENT: the sensor's threshold;
    - DATA.FAULT_AUGMENT: its faults.

    DATA.RATIO_AUGMENT changes whole batches (:meth:`read_batch`), by (seed, epoch, index of the
    first clip); a clip that is read alone keeps its sizes.

    Otherwise: clips follow each other without overlap, the last one moved back to end with the
    sequence, and the crop is the middle of the frame.
    """

    isolated_share: ClassVar[float] = 0.25
    """Share of the training clips that DATA.NEIGHBOURS leaves without neighbours."""

    def __init__(
        self,
        manifest: DatasetManifest,
        split: str,
        settings: DataSettings,
        *,
        seed: int = 0,
        train: bool = True,
        cache_bytes: int = 0,
        crops: Sequence[int] = (),
    ) -> None:
        """Open the split's stores (metadata only).

        Args:
            manifest: manifest of the data set.
            split: name of its split.
            settings: DATA: the keys of the stores' options, CROP_SIZE, CLIP_LEN, NEIGHBOURS,
                AUGMENT, THRESHOLD_AUGMENT, FAULT_AUGMENT, RATIO_AUGMENT, USE_PRECOMPUTED_VOXELS,
                BLUR_DIR.
            seed: seed of crops and augmentation.
            train: random crops and augmentation, or centred crops.
            cache_bytes: memory for decoded chunks, see
                :class:`~vrtspike.data.store.reading.Store`.
            crops: side of the crops of each epoch, instead of CROP_SIZE; the last one is continued.

        Raises:
            ConfigError: if the data set was built with other settings, or DATA.RATIO_AUGMENT asks
                for half of an odd number of the sensor's pixels.
            DataError: (all named at once) if sequences are shorter than a clip or smaller than a
                crop.
        """
        manifest.require_stores(settings)
        manifest.require_blur(settings)
        self._stores = {
            f"{split}/{entry.name}": Store(entry.store, cache_bytes)
            for entry in manifest.split(split)
        }
        self._cache_bytes = cache_bytes
        self._settings = settings
        self._crops = crops or [settings.CROP_SIZE]
        self._seed = seed
        self._train = train
        self._epoch = 0
        store_metadata = self.store_metadata
        self._ratio = next(iter(store_metadata.values())).ratio
        crops_of_all_epochs = sorted(set(self._crops))
        _require_sizes(store_metadata, self._ratio, settings.CLIP_LEN, crops_of_all_epochs)
        if settings.RATIO_AUGMENT:
            _require_halves(self._ratio, crops_of_all_epochs)
        self.clips = [
            (name, start)
            for name, metadata in store_metadata.items()
            for start in _clip_starts(len(metadata.frames), settings.CLIP_LEN, every_frame=train)
        ]
        """Sequence (``<split>/<sequence>``) and first frame of each clip."""

    @property
    def store_metadata(self) -> dict[str, StoreMetadata]:
        """Metadata of the store of each sequence by its name, ``<split>/<sequence>``."""
        return {name: store.metadata for name, store in self._stores.items()}

    def __len__(self) -> int:
        """Number of clips."""
        return len(self.clips)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose crops and augmentation the next samples get."""
        self._epoch = epoch

    def __getitem__(self, index: int) -> Sample:
        """Read clip ``index``, without DATA.RATIO_AUGMENT."""
        return self._read(index, self._random(index))

    def read_batch(self, indices: Sequence[int]) -> Sample:
        """Read clips as a batch; with DATA.RATIO_AUGMENT, all of them change in the same way.

        The clips of a batch have one size, so the generator of the first one draws the change.
        """
        randoms = [self._random(index) for index in indices]
        samples = [
            self._read(index, random) for index, random in zip(indices, randoms, strict=True)
        ]
        if self._train and self._settings.RATIO_AUGMENT and samples[0].spikes is not None:
            change = draw_ratio_change(self._settings.RATIO_AUGMENT, self._ratio, randoms[0])
            samples = [change_ratio(sample, change) for sample in samples]
        return stack_samples(samples)

    def sample_name(self, index: int) -> str:
        """Return the sequence of a clip and its first frame, for messages."""
        name, start = self.clips[index]
        return f"{name} from frame {self._stores[name].metadata.frames[start]}"

    def cache_stats(self) -> CacheStats | None:
        """Return the cache counters of this process; None without a cache."""
        return cache_stats(self._cache_bytes) if self._cache_bytes else None

    def _random(self, index: int) -> np.random.Generator:
        """Return the generator of all draws of a clip."""
        return np.random.default_rng([self._seed, self._epoch, index])

    def _read(self, index: int, random: np.random.Generator) -> Sample:
        """Read a clip; a training clip is cut and augmented at random."""
        name, start = self.clips[index]
        store = self._stores[name]
        settings = self._settings
        rows, columns = self._crop(store.metadata, random)
        neighbors = settings.NEIGHBOURS
        if self._train and neighbors:
            neighbors = random.random() >= self.isolated_share
        frames = slice(start, start + settings.CLIP_LEN)
        sample = read_clip(
            store,
            frames,
            rows,
            columns,
            precomputed=settings.USE_PRECOMPUTED_VOXELS,
            neighbors=neighbors,
        )
        if self._train:
            sample = self._augment(sample, random)
        if settings.NEIGHBOURS and sample.spikes is not None:
            sample = sample._replace(spikes=self._with_absent_neighbors(sample.spikes))
        return sample

    def _crop(self, metadata: StoreMetadata, random: np.random.Generator) -> tuple[slice, slice]:
        """Return rows and columns of a crop: drawn for training, else the middle of the frame."""
        size = self._crops[min(self._epoch, len(self._crops) - 1)]
        # Crops begin on whole pixels of frame and sensor.
        unit = metadata.ratio.numerator
        crop = []
        for side in metadata.rgb_size:
            max_position = (side - size) // unit
            position = int(random.integers(max_position + 1)) if self._train else max_position // 2
            crop.append(slice(unit * position, unit * position + size))
        return crop[0], crop[1]

    def _augment(self, sample: Sample, random: np.random.Generator) -> Sample:
        """Augment a sample by the keys of DATA; for RATIO_AUGMENT, see :meth:`read_batch`."""
        settings = self._settings
        if settings.AUGMENT:
            flips = Flips(*random.integers(2, size=3).astype(bool).tolist())
            sample = flip_sample(sample, flips)
        spikes = sample.spikes
        if spikes is None:
            return sample
        if random.random() < settings.THRESHOLD_AUGMENT:
            spikes = raise_threshold(spikes, random)
        if random.random() < settings.FAULT_AUGMENT:
            spikes = add_sensor_faults(spikes, random)
        return sample._replace(spikes=spikes)

    def _with_absent_neighbors(self, spikes: BinnedSpikes) -> BinnedSpikes:
        """Return the spikes of T + 2 frames, see :func:`pad_absent_neighbors`."""
        return pad_absent_neighbors(spikes)


def _clip_starts(frames: int, length: int, *, every_frame: bool) -> list[int]:
    """Return first frames of a sequence's clips.

    Args:
        frames: number of frames of the sequence.
        length: length of a clip.
        every_frame: begin a clip at every frame; else clips do not overlap, except for the last
            one.
    """
    last = frames - length
    step = 1 if every_frame else length
    return sorted({*range(0, last, step), last})


def _require_sizes(
    store_metadata: Mapping[str, StoreMetadata], ratio: Fraction, length: int, crops: Sequence[int]
) -> None:
    """Reject sequences that are too short or too small, or whose ratio does not suit the crops."""
    faults = []
    for name, metadata in store_metadata.items():
        is_short = len(metadata.frames) < length
        is_small = min(metadata.rgb_size) < max(crops)
        splits_pixels = any(crop % metadata.ratio.numerator for crop in crops)
        if is_short or is_small or splits_pixels or metadata.ratio != ratio:
            height, width = metadata.rgb_size
            faults.append(
                f"{name}: {len(metadata.frames)} frames of {height} x {width} pixels, "
                f"{metadata.ratio} of them for each of the sensor"
            )
    if faults:
        title = (
            f"sequences that cannot give clips of {length} frames (DATA.CLIP_LEN) and crops of "
            f"{', '.join(map(str, crops))} (DATA.CROP_SIZE) on whole pixels of one sensor"
        )
        advice = "Change these keys, or remove the sequences."
        raise DataError(list_faults(title, faults, advice))


def _require_halves(ratio: Fraction, crops: Sequence[int]) -> None:
    """Reject crops that a sensor of half the size cannot see."""
    for crop in crops:
        if crop / ratio % 2:
            raise ConfigError(
                f"DATA.RATIO_AUGMENT is set, and crops of {crop} pixels (DATA.CROP_SIZE) are "
                f"{crop / ratio} pixels of the sensor; expected an even number: change "
                "DATA.CROP_SIZE, or set DATA.RATIO_AUGMENT to 0"
            )
