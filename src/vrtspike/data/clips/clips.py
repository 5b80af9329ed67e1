"""Clips: crops of consecutive frames with their spikes, stored as small integers.

:func:`prepare_batch` turns them into a model's inputs, once, on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.data import Dataset, default_collate

from vrtspike.data.bins import bin_table
from vrtspike.data.clips.augmentation import (
    decimated,
    halved_pictures,
    halved_sensor,
    turned,
    with_faults,
)
from vrtspike.data.clips.dataset import DatasetManifest
from vrtspike.data.clips.limits import MAX_FAULTS, MAX_THRESHOLD
from vrtspike.data.raw.spikes import PackedSpikes
from vrtspike.data.store.layout import StoreLayout
from vrtspike.data.store.reading import Store
from vrtspike.data.store.voxels import Statistics, normalize_counts, voxelize_packed
from vrtspike.system.errors import ConfigError, DataError, list_faults

if TYPE_CHECKING:
    from vrtspike.settings.data import DataSettings


ISOLATED = 0.25
"""Share of the training clips that DATA.NEIGHBOURS leaves without neighbours."""

MOST_SPREAD = 0.05
"""Largest standard deviation of the threshold between pixels in these clips, as a share of it."""


RatioChange = Literal["", "camera", "sensor"]
"""Part that gets half as many rows and columns: none, the camera, or the sensor."""


class Sample(TypedDict):
    """One clip. T frames, K bins, H x W RGB pixels, h x w spike pixels.

    With DATA.NEIGHBOURS the spikes are those of T + 2 frames, one more on either side.
    """

    blur: torch.Tensor
    """uint8 (T, H, W, 3)."""
    sharp: torch.Tensor
    """uint8 (T, H, W, 3)."""
    counts: NotRequired[torch.Tensor]
    """uint8 (T, K, h, w): spikes per bin; absent, as the next two, in a data set without spikes."""
    bin_steps: NotRequired[torch.Tensor]
    """uint8 (T, K): spike steps of each bin."""
    gain: NotRequired[torch.Tensor]
    """float32 (): brightness of a spike rate of 1."""
    sequence: str
    """``<split>/<sequence>``."""
    start: int
    """Index of the first frame in its sequence."""
    neighbours: NotRequired[torch.Tensor]
    """bool (2,): whether there are spikes of the frame before, and of the one after; only with
    DATA.NEIGHBOURS."""
    ratio_change: NotRequired[RatioChange]
    """As drawn for a batch that begins with this clip; only with DATA.RATIO_AUGMENT."""


def read_clip(
    store: Store,
    name: str,
    frames: slice,
    rows: slice,
    columns: slice,
    *,
    precomputed: bool = True,
    neighbours: bool = False,
) -> Sample:
    """Read a clip.

    Args:
        store: of the sequence.
        name: of the sequence, ``<split>/<sequence>``.
        frames: which frames.
        rows: of the crop, in RGB pixels; both ends are multiples of the numerator of the RGB to
            spike scale.
        columns: likewise.
        precomputed: read stored counts; False counts the stored spikes of the crop instead, with
            equal results.
        neighbours: read the spikes of the frame before and of the one after as well, where the
            sequence has these frames.

    Raises:
        DataError: if a chunk cannot be read.
    """
    layout = store.layout
    sample = Sample(
        blur=torch.from_numpy(store.read("blur", frames, rows, columns)),
        sharp=torch.from_numpy(store.read("sharp", frames, rows, columns)),
        sequence=name,
        start=frames.start,
    )
    if layout.spike_size is not None:
        counted = slice(
            max(frames.start - int(neighbours), 0),
            min(frames.stop + int(neighbours), len(layout.frames)),
        )
        place = [
            slice(int(s.start / layout.scale), int(s.stop / layout.scale)) for s in (rows, columns)
        ]
        counts = (
            store.read("voxels", counted, *place) if precomputed else _count(store, counted, *place)
        )
        sample["counts"] = torch.from_numpy(counts)
        sample["bin_steps"] = torch.from_numpy(bin_table(layout.binned[counted], layout.bins))
        sample["gain"] = torch.tensor(store.gain, dtype=torch.float32)
    return sample


def _count(store: Store, frames: slice, rows: slice, columns: slice) -> NDArray[np.uint8]:
    """Spikes per bin of a crop in spike pixels, from the stored spikes: uint8 (T, K, h, w)."""
    first, last = columns.start // 8, -(-columns.stop // 8)
    packed = store.read("bits", frames, rows, slice(first, last))
    counts = []
    for bits, exposure in zip(packed, store.layout.binned[frames], strict=True):
        spikes = PackedSpikes(bits[: exposure.stop], columns.stop - 8 * first)
        found = voxelize_packed(spikes, store.layout.bins, exposure.sharp)
        counts.append(found[..., columns.start - 8 * first :])
    return np.stack(counts)


class ClipDataset(Dataset[Sample]):
    """All clips of a split.

    Training (``train=True``): every start frame gives a clip; the crop's place and the augmentation
    (flips and transposition, where DATA.AUGMENT; the sensor's threshold, where
    DATA.THRESHOLD_AUGMENT; its faults, where DATA.FAULT_AUGMENT; the ratio of its size to that of
    the frames, where DATA.RATIO_AUGMENT) are drawn from (seed, epoch,
    index) and nothing else, so they do not depend on workers, ranks or a resumed run. Otherwise:
    clips follow each other without overlap, the last one moved back to end with the sequence, and
    the crop is the middle of the frame.
    """

    def __init__(
        self,
        dataset: DatasetManifest,
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
            dataset: which one.
            split: which split.
            settings: DATA: CROP_SIZE, CLIP_LEN, K, NEIGHBOURS, AUGMENT, THRESHOLD_AUGMENT,
                FAULT_AUGMENT, RATIO_AUGMENT, USE_PRECOMPUTED_VOXELS, BLUR_DIR.
            seed: of crops and augmentation.
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
        dataset.require(settings, "NUM_VOXEL_BINS", "CONTEXT_STEPS", "BLUR_DIR")
        self._stores = {
            f"{split}/{entry.name}": Store(entry.store, cache_bytes)
            for entry in dataset.split(split)
        }
        self._settings = settings
        self._crops = crops or [settings.CROP_SIZE]
        self._seed, self._train, self._epoch = seed, train, 0
        layouts = {name: store.layout for name, store in self._stores.items()}
        crops_of_all_epochs = sorted(set(self._crops))
        _check_sizes(layouts, settings.CLIP_LEN, crops_of_all_epochs)
        if settings.RATIO_AUGMENT:
            _check_halves(layouts, crops_of_all_epochs)
        self._clips = [
            (name, start)
            for name, layout in layouts.items()
            for start in _starts(len(layout.frames), settings.CLIP_LEN, every=train)
        ]

    def __len__(self) -> int:
        """Number of clips."""
        return len(self._clips)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose crops and augmentation the next samples get."""
        self._epoch = epoch

    def __getitem__(self, index: int) -> Sample:
        """Read clip ``index``; see :class:`Sample`."""
        name, start = self._clips[index]
        store, settings = self._stores[name], self._settings
        frames = slice(start, start + settings.CLIP_LEN)
        size = self._crops[min(self._epoch, len(self._crops) - 1)]
        unit = store.layout.scale.numerator
        last = [(side - size) // unit for side in store.layout.rgb_size]
        neighbours = settings.NEIGHBOURS
        random = np.random.default_rng([self._seed, self._epoch, index])
        if self._train:
            corner = [unit * int(random.integers(places + 1)) for places in last]
            neighbours = neighbours and random.random() >= ISOLATED
        else:
            corner = [unit * (places // 2) for places in last]
        rows, columns = (slice(place, place + size) for place in corner)
        sample = read_clip(
            store,
            name,
            frames,
            rows,
            columns,
            precomputed=settings.USE_PRECOMPUTED_VOXELS,
            neighbours=neighbours,
        )
        if self._train:
            self._change(sample, random)
        if settings.NEIGHBOURS and "counts" in sample:
            before = neighbours and start > 0
            after = neighbours and frames.stop < len(store.layout.frames)
            _mark_neighbours(sample, before, after)
        return sample

    def _change(self, sample: Sample, random: np.random.Generator) -> None:
        """Augment a sample as DATA asks for."""
        settings = self._settings
        if settings.AUGMENT:
            _augment(sample, *map(bool, random.integers(2, size=3)))
        if "counts" in sample:
            if random.random() < settings.THRESHOLD_AUGMENT:
                _raise_threshold(sample, random)
            if random.random() < settings.FAULT_AUGMENT:
                _add_faults(sample, random)
            if settings.RATIO_AUGMENT:
                sample["ratio_change"] = _draw_ratio_change(settings.RATIO_AUGMENT, random)

    def collate(self, samples: list[Sample]) -> dict[str, Any]:
        """Stack samples to a batch; all change their ratio of sensor to frame as the first does."""
        change = samples[0].get("ratio_change", "")
        for sample in samples:
            sample.pop("ratio_change", None)
            _change_ratio(sample, change)
        batch: dict[str, Any] = default_collate(samples)
        return batch


def _starts(frames: int, length: int, *, every: bool) -> list[int]:
    """First frames of a sequence's clips."""
    last = frames - length
    return sorted({*range(0, last, 1 if every else length), last})


def _augment(sample: Sample, rows: bool, columns: bool, swap: bool) -> None:
    """Flip and then transpose all arrays of a sample alike, in place of the old ones."""
    if rows or columns or swap:
        sample["blur"] = turned(sample["blur"], 1, rows, columns, swap)
        sample["sharp"] = turned(sample["sharp"], 1, rows, columns, swap)
        if "counts" in sample:
            sample["counts"] = turned(sample["counts"], 2, rows, columns, swap)


def _raise_threshold(sample: Sample, random: np.random.Generator) -> None:
    """Replace the spikes of a sample by those of a sensor with a higher threshold."""
    size = sample["counts"].shape[-2:]
    times, spread = random.uniform(1, MAX_THRESHOLD), random.uniform(0, MOST_SPREAD)
    each = np.maximum(1, times * (1 + spread * random.standard_normal(size)))
    sample["counts"] = decimated(sample["counts"], each, each * random.random(size))
    sample["gain"] = times * sample["gain"]


def _add_faults(sample: Sample, random: np.random.Generator) -> None:
    """Replace the spikes of a sample by those of a sensor with faults."""
    faults = {name: random.uniform(0, most) for name, most in MAX_FAULTS.items()}
    before = sample["counts"].sum(1, dtype=torch.float32)
    sample["counts"] = with_faults(sample["counts"], sample["bin_steps"], random, **faults)
    after = sample["counts"].sum(1, dtype=torch.float32)
    # The gain is measured of what such a sensor gives: spikes without light lower it.
    sample["gain"] *= (before * after).sum() / after.square().sum().clamp(min=1)


def _mark_neighbours(sample: Sample, before: bool, after: bool) -> None:
    """Say which neighbours a sample has spikes of, and fill the places of those that it lacks."""
    absent = (0, 0, 0, 0, 0, 0, int(not before), int(not after))
    sample["counts"] = functional.pad(sample["counts"], absent)
    # One step a bin, so that nothing is divided by zero.
    sample["bin_steps"] = functional.pad(sample["bin_steps"], absent[4:], value=1)
    sample["neighbours"] = torch.tensor([before, after])


def _draw_ratio_change(probability: float, random: np.random.Generator) -> RatioChange:
    """The change of ratio of a batch: with a probability one of the two, both equally often."""
    draw = random.random()
    if draw < probability / 2:
        return "camera"
    return "sensor" if draw < probability else ""


def _change_ratio(sample: Sample, change: RatioChange) -> None:
    """Replace the frames of a sample, or its spikes, by those of half as many rows and columns."""
    if change == "camera":
        sample["blur"] = halved_pictures(sample["blur"])
        sample["sharp"] = halved_pictures(sample["sharp"])
    if change == "sensor":
        # The spikes decide, so that a batch is the same whoever reads it.
        random = np.random.default_rng(int(sample["counts"].sum()))
        sample["counts"] = halved_sensor(sample["counts"], random)


def _check_sizes(layouts: Mapping[str, StoreLayout], length: int, crops: Sequence[int]) -> None:
    scale = next(iter(layouts.values())).scale
    faults = [
        f"{name}: {len(layout.frames)} frames of {layout.rgb_size[0]} x {layout.rgb_size[1]} "
        f"pixels, {layout.scale} of them for each of the sensor"
        for name, layout in layouts.items()
        if len(layout.frames) < length
        or min(layout.rgb_size) < max(crops)
        or layout.scale != scale
        or any(crop % layout.scale.numerator for crop in crops)
    ]
    if faults:
        title = (
            f"sequences that cannot give clips of {length} frames (DATA.CLIP_LEN) and crops of "
            f"{', '.join(map(str, crops))} (DATA.CROP_SIZE) on whole pixels of one sensor"
        )
        advice = "Change these keys, or remove the sequences."
        raise DataError(list_faults(title, faults, advice))


def _check_halves(layouts: Mapping[str, StoreLayout], crops: Sequence[int]) -> None:
    """Refuse crops that a sensor of half the size cannot see.

    Raises:
        ConfigError: naming the key.
    """
    scale = next(iter(layouts.values())).scale
    for crop in crops:
        if crop / scale % 2:
            raise ConfigError(
                f"DATA.RATIO_AUGMENT is set, and crops of {crop} pixels (DATA.CROP_SIZE) are "
                f"{crop / scale} pixels of the sensor; expected an even number: change "
                "DATA.CROP_SIZE, or set DATA.RATIO_AUGMENT to 0"
            )


@dataclass
class Clip:
    """A batch of clips on the device. B clips of T frames, K bins, H x W pixels."""

    blur: torch.Tensor
    """float32 (B, T, 3, H, W), 0 to 1."""
    sharp: torch.Tensor | None
    """float32 (B, T, 3, H, W), 0 to 1; None where there is no truth."""
    voxels: torch.Tensor | None
    """float32 (B, T, K, h, w): standardised gain x spike rate, at the resolution of the spike
    sensor; (B, T + 2, K, h, w) with DATA.NEIGHBOURS; None where there are no spikes."""
    guide: torch.Tensor | None = None
    """What a teacher restores, where there is one."""

    @property
    def reference(self) -> torch.Tensor:
        """``sharp`` of a clip for training."""
        assert self.sharp is not None, "training clips have sharp frames"
        return self.sharp

    @property
    def own_voxels(self) -> torch.Tensor | None:
        """Voxels of the clip's own frames, (B, T, K, h, w), which every model takes."""
        if self.voxels is None or self.voxels.shape[1] == self.blur.shape[1]:
            return self.voxels
        return self.voxels[:, 1:-1]


def prepare_batch(
    batch: Mapping[str, Any], statistics: Statistics | None, device: torch.device | str
) -> Clip:
    """Move a batch to the device as integers and convert it there.

    Args:
        batch: collated samples of :class:`ClipDataset`:
            ``blur`` uint8 (B, T, H, W, 3); ``sharp`` like it where there is one; ``counts`` uint8
            (B, T, K, h, w), ``bin_steps`` uint8 (B, T, K) and ``gain`` float32 (B,) where there
            are spikes.
        statistics: of the training split; None where its data set has no spikes, the batch's are
            then left aside.
        device: where the model is.
    """
    blur = batch["blur"].to(device, non_blocking=True)
    sharp = batch.get("sharp")
    voxels = None
    if statistics is not None and "counts" in batch:
        counts, steps, gain = (
            batch[name].to(device, non_blocking=True) for name in ("counts", "bin_steps", "gain")
        )
        voxels = normalize_counts(counts, steps, gain, statistics.mean, statistics.std)
        if "neighbours" in batch:
            present = batch["neighbours"].to(device, non_blocking=True)
            voxels = without_absent_neighbours(voxels, present)
    return Clip(
        blur=_to_float(blur),
        sharp=None if sharp is None else _to_float(sharp.to(device, non_blocking=True)),
        voxels=voxels,
    )


def without_absent_neighbours(voxels: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Voxels in which absent neighbours deviate in no bin from the frame beside them.

    Args:
        voxels: float32 (B, T + 2, K, h, w), those of the frames beside the clip first and last.
        present: bool (B, 2), whether there are spikes of the frame before, and of the one after.
    """
    means = voxels.mean(dim=2, keepdim=True).expand_as(voxels)
    before, after = present[:, :, None, None, None, None].unbind(dim=1)
    first = torch.where(before, voxels[:, :1], means[:, 1:2])
    last = torch.where(after, voxels[:, -1:], means[:, -2:-1])
    return torch.cat((first, voxels[:, 1:-1], last), dim=1)


def _to_float(image: torch.Tensor) -> torch.Tensor:
    """uint8 (..., H, W, 3) to float32 (..., 3, H, W) in [0, 1], contiguous."""
    return image.movedim(-1, -3).to(torch.float32, memory_format=torch.contiguous_format) / 255
