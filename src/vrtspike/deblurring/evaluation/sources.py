"""Where a clip to restore comes from: a store, or frames with spikes from elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.exposure import bin_table
from vrtspike.deblurring.data.gate.alignment import align, mismatch
from vrtspike.deblurring.data.raw.layouts.files import SPIKE_SUFFIXES
from vrtspike.deblurring.data.raw.spikes import (
    PackedSpikes,
    count_spike_frames,
    npz_sensor,
    picture_columns,
    read_rows,
)
from vrtspike.deblurring.data.simulation.sensor import stream_spikes
from vrtspike.deblurring.data.store.gain import GainMeter
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.voxels import voxelize, voxelize_packed
from vrtspike.deblurring.evaluation.pictures import (
    KEPT_FRAMES,
    ForwardReader,
    Pictures,
    open_pictures,
)
from vrtspike.errors import DataError, list_faults
from vrtspike.images import luma

SIMULATED_STEPS = 88
"""Spike steps simulated per blurry frame: eleven source frames of eight steps, as in GoPro."""


@dataclass(frozen=True)
class SourceFrames:
    """Consecutive frames of a clip.

    Attributes:
        blur: uint8 (T, H, W, 3) RGB.
        counts: (T, K, h, w) spikes per bin; uint8, or float32 where areas were averaged; None,
            as the next, where there are no spikes.
        bin_steps: uint8 (T, K), spike steps of each bin.
    """

    blur: NDArray[np.uint8]
    counts: NDArray[np.uint8] | NDArray[np.float32] | None = None
    bin_steps: NDArray[np.uint8] | None = None


class FrameSource(Protocol):
    """A clip that can be read piece by piece."""

    names: Sequence[str]
    """Names of the frames, in order."""

    size: tuple[int, int]
    """Height and width of the frames."""

    ratio: int
    """Pixels of a frame for each spike pixel along each side; 1 where there are no spikes."""

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames; called from several threads."""

    def gain(self) -> float | None:
        """Brightness of a spike rate of 1; None without spikes.

        It is of the whole clip (:mod:`~vrtspike.deblurring.data.store.gain`), so
        files are all read for it.
        """


class StoredSequence:
    """One sequence of a store.

    Args:
        store: opened for reading.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names: Sequence[str] = store.layout.frames
        self.size = store.layout.rgb_size
        self.ratio = store.layout.scale

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames, with their spike counts if there are any."""
        blur = self._store.read("blur", frames, slice(None), slice(None))
        layout = self._store.layout
        if layout.spike_size is None:
            return SourceFrames(blur)
        counts = self._store.read("voxels", frames, slice(None), slice(None))
        return SourceFrames(blur, counts, bin_table(layout.spike_frames[frames], layout.bins))

    def gain(self) -> float | None:
        """The gain that the store was written with."""
        return self._store.gain

    def read_sharp(self, frame: int) -> NDArray[np.uint8]:
        """One sharp frame, uint8 (H, W, 3)."""
        return self._store.read("sharp", slice(frame, frame + 1), slice(None), slice(None))[0]


class ScaledSource:
    """Another source with its frames and its sensor resized by areas.

    Args:
        source: the clip at its own size.
        scale: factor along each side; the sensor's sides are rounded to whole pixels.
    """

    def __init__(self, source: FrameSource, scale: float) -> None:
        self._source = source
        self.names = source.names
        self.ratio = source.ratio
        rows, columns = (max(1, round(side // self.ratio * scale)) for side in source.size)
        self._sensor = (rows, columns)
        self.size = (rows * self.ratio, columns * self.ratio)

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames and resize them; counts become means of counts."""
        window = self._source.read(frames)
        blur = np.stack([resize_image(image, self.size) for image in window.blur])
        if window.counts is None:
            return SourceFrames(blur)
        counts = [
            np.stack([_resize(plane.astype(np.float32), self._sensor) for plane in grid])
            for grid in window.counts
        ]
        return SourceFrames(blur, np.stack(counts), window.bin_steps)

    def gain(self) -> float | None:
        """The gain of the clip at its own size: averaging areas changes no brightness."""
        return self._source.gain()


def resize_image(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Resize uint8 (H, W, 3) to (height, width) by averaging areas (enlarging: linearly)."""
    return np.rint(_resize(image.astype(np.float32), size)).clip(0, 255).astype(np.uint8)


def _resize(values: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    shrinks = size[0] * size[1] < values.shape[0] * values.shape[1]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    resized = cv2.resize(values, (size[1], size[0]), interpolation=method)
    return np.asarray(resized, dtype=np.float32)


class BlurrySequence:
    """Blurry frames without spikes.

    Args:
        blur: a folder of pictures, a video file, or frames that were opened before.

    Raises:
        DataError: if there are no frames, or a frame cannot be read.
    """

    def __init__(self, blur: Path | Pictures) -> None:
        self.pictures = open_pictures(blur) if isinstance(blur, Path) else blur
        self.names = self.pictures.names
        self.size = self.pictures.size
        self.ratio = 1

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames."""
        return SourceFrames(self.pictures.read(frames))

    def gain(self) -> float | None:
        """None: there are no spikes."""
        return None


class SpikedSequence(BlurrySequence, ABC):
    """Blurry frames with spikes of some kind.

    Args:
        blur: a folder of pictures, a video file, or frames that were opened before.
        bins: bins of the voxel grid.
    """

    spikes: str
    """What messages call the spikes."""

    steps: Sequence[int]
    """Spike steps of each frame's exposure."""

    def __init__(self, blur: Path | Pictures, bins: int) -> None:
        super().__init__(blur)
        self._bins = bins

    @abstractmethod
    def counts(self, frames: slice) -> list[NDArray[np.uint8]]:
        """Spikes per bin of consecutive frames, (K, h, w) each."""

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames and count their spikes."""
        steps = bin_table(self.steps[frames], self._bins)
        return SourceFrames(self.pictures.read(frames), np.stack(self.counts(frames)), steps)

    def gain(self) -> float:
        """The gain of the clip; reads all frames and spikes once, one frame at a time.

        Raises:
            DataError: if something cannot be read, or there is not a single spike.
        """
        meter = GainMeter()
        for number, steps in enumerate(self.steps):
            here = slice(number, number + 1)
            meter.add(self.pictures.read(here)[0], self.counts(here)[0], steps)
        return meter.gain(self.spikes)

    def _fit(self, rows: int, columns: int) -> int:
        """Pixels of a frame for each spike pixel along each side.

        Raises:
            DataError: if that is no whole number.
        """
        ratios = {self.size[0] / rows, self.size[1] / columns}
        ratio = int(min(ratios))
        if ratios != {ratio}:
            raise DataError(
                f"{self.pictures.place}: frames of {self.size[0]} x {self.size[1]} are no whole "
                f"multiple of the sensor's {rows} x {columns}; check the sensor size"
            )
        return ratio


class FolderSequence(SpikedSequence):
    """Blurry frames with recorded spikes.

    Args:
        blur: a folder of pictures, a video file, or frames that were opened before.
        spikes: a folder of ``.dat`` or ``.npz`` files with the frames' names, or one file for all
            frames, divided evenly among them.
        bins: bins of the voxel grid.
        sensor: rows and columns of the sensor as in its files; None is the size that ``.npz`` files
            give, else half of the frames' size.

    Raises:
        DataError: listing every frame without a partner and every file of a wrong size.
    """

    def __init__(
        self,
        blur: Path | Pictures,
        spikes: Path,
        bins: int,
        sensor: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(blur, bins)
        self.spikes = str(spikes)
        if not spikes.exists():
            raise DataError(
                f"{spikes}: no such file or folder; expected the spikes (.dat or .npz) of "
                f"{self.pictures.place}"
            )
        self.files = [spikes] if spikes.is_file() else self._partners(spikes)
        self._sensor = sensor or npz_sensor(self.files[0]) or (self.size[0] // 2, self.size[1] // 2)
        self._columns = picture_columns(self._sensor, self.size)
        self.ratio = self._fit(self._sensor[0], self._columns)
        self._exposures = self._find_exposures(spikes, self.files)
        self.steps = [steps for _, _, steps in self._exposures]

    def counts(self, frames: slice) -> list[NDArray[np.uint8]]:
        """Read and count the spikes of consecutive frames."""
        return [
            voxelize_packed(self._rows(exposure), self._bins)[..., : self._columns]
            for exposure in self._exposures[frames]
        ]

    def doubts(self) -> list[str]:
        """A line for each frame that its spikes do not look like; reads every file once.

        A single step is no picture that could be compared.
        """
        found = []
        for number, exposure in enumerate(self._exposures):
            path, _, steps = exposure
            if steps < 2:
                continue
            spikes = PackedSpikes(self._rows(exposure), self._columns)
            gray = luma(self.pictures.read(slice(number, number + 1))[0]).astype(np.uint8)
            likeness = align(spikes, gray, blurry=True)
            frame = self.pictures.describe(number)
            fault = mismatch(likeness, path, frame, (self._sensor[0], self._columns))
            found += [fault] if fault else []
        return found

    def _rows(self, exposure: tuple[Path, int, int]) -> NDArray[np.uint8]:
        """The spikes of an exposure, packed."""
        path, start, steps = exposure
        return read_rows(path, *self._sensor, start=start, count=steps, columns=self._columns)

    def _partners(self, spikes: Path) -> list[Path]:
        """The spike file of each frame, of a name that says what is missing where there is none."""
        files, twice = [], []
        for name in self.names:
            found = [path for s in SPIKE_SUFFIXES if (path := spikes / f"{name}{s}").is_file()]
            files.append(found[0] if found else spikes / f"{name}{SPIKE_SUFFIXES[0]}")
            if len(found) > 1:
                twice.append(" and ".join(path.name for path in found))
        if twice:
            advice = "Remove one of each pair."
            raise DataError(list_faults(f"{spikes}: two spike files for a frame", twice, advice))
        return files

    def _find_exposures(self, spikes: Path, files: list[Path]) -> list[tuple[Path, int, int]]:
        """File, first step and number of steps for each frame."""
        frames = len(self.names)
        if spikes.is_file():
            steps = divided_evenly(count_spike_frames(spikes, *self._sensor), frames, self.spikes)
            return [(spikes, number * steps, steps) for number in range(frames)]
        exposures, faults = [], []
        for path in files:
            try:
                exposures.append((path, 0, count_spike_frames(path, *self._sensor)))
            except DataError as error:
                faults.append(str(error))
        if faults:
            advice = (
                "Each blurry frame needs a spike file (.dat or .npz) of its name; check the sensor "
                "size."
            )
            raise DataError(list_faults(f"{spikes}: frames without usable spikes", faults, advice))
        return exposures


class ArraySequence(SpikedSequence):
    """Blurry frames with spikes in memory.

    Args:
        blur: the frames.
        spikes: uint8 (S, h, w) of 0 and 1 for the whole clip, divided evenly among the frames; or
            such an array for each frame.
        bins: bins of the voxel grid.

    Raises:
        DataError: if spikes and frames do not fit together.
    """

    spikes = "spikes"

    def __init__(
        self,
        blur: Pictures,
        spikes: NDArray[np.uint8] | Sequence[NDArray[np.uint8]],
        bins: int,
    ) -> None:
        super().__init__(blur, bins)
        frames = len(self.names)
        if isinstance(spikes, np.ndarray) and spikes.ndim == 3:
            steps = divided_evenly(len(spikes), frames, "spikes")
            spikes = [spikes[number * steps : (number + 1) * steps] for number in range(frames)]
        self._exposures = list(spikes)
        if len(self._exposures) != frames:
            raise DataError(
                f"spikes: of {len(self._exposures)} exposures, expected one for each of the "
                f"{frames} frames, or one array (S, h, w) for all"
            )
        for number, exposure in enumerate(self._exposures):
            if exposure.dtype != np.uint8 or exposure.ndim != 3 or exposure.max(initial=0) > 1:
                raise DataError(
                    f"spikes of frame {number}: found {exposure.dtype} of shape {exposure.shape}, "
                    "expected uint8 (S, h, w) of 0 and 1"
                )
        sizes = {exposure.shape[1:] for exposure in self._exposures}
        if len(sizes) > 1:
            raise DataError(f"spikes: of several sizes, {sorted(sizes)}; expected one sensor")
        self.ratio = self._fit(*sizes.pop())
        self.steps = [len(exposure) for exposure in self._exposures]

    def counts(self, frames: slice) -> list[NDArray[np.uint8]]:
        """Count the spikes of consecutive frames."""
        return [voxelize(exposure, self._bins) for exposure in self._exposures[frames]]


class SimulatedSequence(SpikedSequence):
    """Blurry frames with spikes simulated from the blurry frames themselves.

    Such spikes hold no more than the frames do: they show how a model runs, not how well it
    restores. Each exposure starts half-way from the frame before and ends half-way to the next.

    Args:
        blur: a folder of pictures, a video file, or frames that were opened before; with even
            sides.
        bins: bins of the voxel grid.
    """

    def __init__(self, blur: Path | Pictures, bins: int) -> None:
        super().__init__(blur, bins)
        self.spikes = f"{self.pictures.place} (simulated spikes)"
        self.ratio = 2
        self.steps = [SIMULATED_STEPS] * len(self.names)
        # The sensor's charge runs on from frame to frame, so they are simulated in order.
        self._reader = ForwardReader(self._simulate, KEPT_FRAMES)

    def counts(self, frames: slice) -> list[NDArray[np.uint8]]:
        """Simulate up to consecutive frames and count their spikes."""
        return self._reader.read(frames)

    def _simulate(self) -> Iterator[NDArray[np.uint8]]:
        """The counts of each frame, in order."""
        intervals = stream_spikes(self._halves(), SIMULATED_STEPS // 2)
        for first, second in zip(intervals, intervals, strict=True):
            yield voxelize(np.concatenate([first, second]).view(np.uint8), self._bins)

    def _halves(self) -> Iterator[NDArray[np.uint8]]:
        """Each frame preceded by what lies half-way from the frame before it."""
        before: NDArray[np.uint8] | None = None
        for number in range(len(self.names)):
            frame = self.pictures.read(slice(number, number + 1))[0]
            middle = frame if before is None else cv2.addWeighted(before, 0.5, frame, 0.5, 0)
            yield np.asarray(middle, dtype=np.uint8)
            yield frame
            before = frame


def divided_evenly(steps: int, frames: int, name: str) -> int:
    """Spike steps of each frame where one recording serves all.

    Raises:
        DataError: if they cannot be divided evenly.
    """
    each, rest = divmod(steps, frames)
    if rest:
        raise DataError(
            f"{name}: {steps} spike frames cannot be divided evenly among {frames} blurry frames; "
            "give one file per frame"
        )
    return each
