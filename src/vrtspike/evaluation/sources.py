"""Where a clip to restore comes from: a store, or a folder of frames with spikes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import bin_table
from vrtspike.data.gate.alignment import align, mismatch
from vrtspike.data.raw.images import read_gray, read_rgb
from vrtspike.data.raw.layouts.files import SPIKE_SUFFIXES
from vrtspike.data.raw.numbering import frame_order
from vrtspike.data.raw.spikes import (
    PackedSpikes,
    count_spike_frames,
    npz_sensor,
    picture_columns,
    read_rows,
)
from vrtspike.data.simulation.sensor import stream_spikes
from vrtspike.data.store.gain import GainMeter
from vrtspike.data.store.reading import Store
from vrtspike.data.store.voxels import voxelize, voxelize_packed
from vrtspike.errors import DataError, list_faults

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
        """Brightness of a spike rate of 1 (:mod:`vrtspike.data.store.gain`); None without spikes.

        It is of the whole clip, so files are all read for it.
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
    """Blurry frames of a folder, without spikes.

    Args:
        blur: folder of ``*.png``, 8-bit RGB, all of one size.

    Raises:
        DataError: if there are no frames, or a frame cannot be read.
    """

    def __init__(self, blur: Path) -> None:
        self._files = png_files(blur)
        self.names: Sequence[str] = [path.stem for path in self._files]
        self.size = _frame_size(self._files[0])
        self.ratio = 1

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames."""
        return SourceFrames(_read_frames(self._files[frames], self.size))

    def gain(self) -> float | None:
        """None: there are no spikes."""
        return None


class FolderSequence(BlurrySequence):
    """Blurry frames of a folder with recorded spikes.

    Args:
        blur: folder of ``*.png``, 8-bit RGB, all of one size.
        spikes: a folder of ``.dat`` or ``.npz`` files with the frames' names, or one file for all
            frames, divided evenly among them.
        bins: bins of the voxel grid.
        sensor: rows and columns of the sensor as in its files; None is the size that ``.npz`` files
            give, else half of the frames' size.

    Raises:
        DataError: listing every frame without a partner and every file of a wrong size.
    """

    def __init__(
        self, blur: Path, spikes: Path, bins: int, sensor: tuple[int, int] | None = None
    ) -> None:
        super().__init__(blur)
        files = [spikes] if spikes.is_file() else self._partners(spikes)
        self._sensor = sensor or npz_sensor(files[0]) or (self.size[0] // 2, self.size[1] // 2)
        self._columns = picture_columns(self._sensor, self.size)
        ratios = {self.size[0] / self._sensor[0], self.size[1] / self._columns}
        self.ratio = int(min(ratios))
        if ratios != {self.ratio}:
            raise DataError(
                f"{blur}: frames of {self.size[0]} x {self.size[1]} are no whole multiple of the "
                f"sensor's {self._sensor[0]} x {self._columns}; check the sensor size"
            )
        self._bins = bins
        self._spikes = spikes
        self._exposures = self._find_exposures(spikes, files)

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames and count their spikes."""
        exposures = self._exposures[frames]
        return SourceFrames(
            _read_frames(self._files[frames], self.size),
            np.stack([self._counts(exposure) for exposure in exposures]),
            bin_table([exposure[2] for exposure in exposures], self._bins),
        )

    def gain(self) -> float:
        """The gain of the clip; reads every file once, one frame at a time.

        Raises:
            DataError: if a file cannot be read, or there is not a single spike.
        """
        meter = GainMeter()
        for file, exposure in zip(self._files, self._exposures, strict=True):
            (frame,) = _read_frames([file], self.size)
            meter.add(frame, self._counts(exposure), exposure[2])
        return meter.gain(str(self._spikes))

    def doubts(self) -> list[str]:
        """A line for each frame that its spikes do not look like; reads every file once.

        A single step is no picture that could be compared.
        """
        found = []
        for file, exposure in zip(self._files, self._exposures, strict=True):
            if exposure[2] < 2:
                continue
            spikes = PackedSpikes(self._rows(exposure), self._columns)
            likeness = align(spikes, read_gray(file), blurry=True)
            fault = mismatch(likeness, exposure[0], file, (self._sensor[0], self._columns))
            found += [fault] if fault else []
        return found

    def _counts(self, exposure: tuple[Path, int, int]) -> NDArray[np.uint8]:
        """The spikes of an exposure, counted: (K, h, w)."""
        return voxelize_packed(self._rows(exposure), self._bins)[..., : self._columns]

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
        if spikes.is_file():
            total = count_spike_frames(spikes, *self._sensor)
            steps, rest = divmod(total, len(self._files))
            if rest:
                raise DataError(
                    f"{spikes}: {total} spike frames cannot be divided evenly among "
                    f"{len(self._files)} blurry frames; give one file per frame"
                )
            return [(spikes, number * steps, steps) for number in range(len(self._files))]
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


class SimulatedSequence(BlurrySequence):
    """Blurry frames of a folder with spikes simulated from the blurry frames themselves.

    Such spikes hold no more than the frames do: they show how a model runs, not how well it
    restores. Each exposure starts half-way from the frame before and ends half-way to the next.

    Args:
        blur: folder of ``*.png``, 8-bit RGB, all of one size with even sides.
        bins: bins of the voxel grid.
    """

    def __init__(self, blur: Path, bins: int) -> None:
        super().__init__(blur)
        self.ratio = 2
        # The sensor's charge runs on from frame to frame, so they are simulated in order, once;
        # counts are what is kept: a few megabytes a frame.
        intervals = stream_spikes(self._halves(), SIMULATED_STEPS // 2)
        self._bins = bins
        self._counts = [
            voxelize(np.concatenate([first, second]).view(np.uint8), bins)
            for first, second in zip(intervals, intervals, strict=True)
        ]

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames and their simulated counts."""
        blur = _read_frames(self._files[frames], self.size)
        steps = bin_table([SIMULATED_STEPS] * len(blur), self._bins)
        return SourceFrames(blur, np.stack(self._counts[frames]), steps)

    def gain(self) -> float:
        """The gain of the clip; reads every frame once.

        Raises:
            DataError: if a frame cannot be read, or all are too dark for a single spike.
        """
        meter = GainMeter()
        for file, counts in zip(self._files, self._counts, strict=True):
            (frame,) = _read_frames([file], self.size)
            meter.add(frame, counts, SIMULATED_STEPS)
        return meter.gain(f"{self._files[0].parent} (simulated spikes)")

    def _halves(self) -> Iterator[NDArray[np.uint8]]:
        """Each frame preceded by what lies half-way from the frame before it."""
        before: NDArray[np.uint8] | None = None
        for file in self._files:
            frame = _read_frames([file], self.size)[0]
            middle = frame if before is None else cv2.addWeighted(before, 0.5, frame, 0.5, 0)
            yield np.asarray(middle, dtype=np.uint8)
            yield frame
            before = frame


def png_files(folder: Path) -> list[Path]:
    """PNG files of a folder in the order of the numbers in their names.

    Raises:
        DataError: if there are none.
    """
    files = [path for path in folder.glob("*.png") if not path.name.startswith(".")]
    if not files:
        raise DataError(f"{folder}: no PNG files; expected the blurry frames of one sequence")
    return sorted(files, key=lambda path: frame_order(path.stem))


def _frame_size(path: Path) -> tuple[int, int]:
    height, width = read_rgb(path).shape[:2]
    return height, width


def _read_frames(files: Sequence[Path], size: tuple[int, int]) -> NDArray[np.uint8]:
    frames = []
    for file in files:
        frame = read_rgb(file)
        if frame.shape[:2] != size:
            raise DataError(
                f"{file}: {frame.shape[0]} x {frame.shape[1]} pixels, expected {size[0]} x "
                f"{size[1]} as in the first frame; all frames of a sequence have one size"
            )
        frames.append(frame)
    return np.stack(frames)
