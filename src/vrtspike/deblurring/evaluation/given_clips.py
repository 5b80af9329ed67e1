"""The clips that users give: blurry frames with spike files, with arrays or without spikes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.bins import bin_table
from vrtspike.deblurring.data.exposure import TABLE, Exposure
from vrtspike.deblurring.data.gate.alignment import (
    DOUBTED,
    Alignment,
    align,
    center_tolerance,
    mismatch,
    misplacement,
)
from vrtspike.deblurring.data.gate.sensor_guess import find_sensor, told_sensor
from vrtspike.deblurring.data.raw.layouts.files import SPIKE_SUFFIXES
from vrtspike.deblurring.data.raw.layouts.folders import numbered, without_zeros
from vrtspike.deblurring.data.raw.layouts.layout import Layout
from vrtspike.deblurring.data.raw.layouts.registry import LAYOUTS
from vrtspike.deblurring.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.deblurring.data.raw.recordings import Recording, find_recordings
from vrtspike.deblurring.data.raw.spikes import (
    PackedSpikes,
    frame_scale,
    pack_rows,
    picture_area,
    read_packed,
)
from vrtspike.deblurring.data.simulation.sensor import stream_spikes
from vrtspike.deblurring.data.store.voxels import GainMeter, voxelize, voxelize_packed
from vrtspike.deblurring.evaluation.pictures import (
    KEPT_FRAMES,
    ForwardReader,
    Pictures,
    open_pictures,
)
from vrtspike.deblurring.evaluation.sources import SourceFrames
from vrtspike.deblurring.settings import deblurring_settings
from vrtspike.errors import ConfigError, DataError, list_faults
from vrtspike.io.images import luma
from vrtspike.runs.identity import RunIdentity

_TIMED = 8
"""Frames, about, whose place in time is looked for."""
_SIMULATED = Exposure(0, 88, 44)
"""Spikes simulated of a blurry frame: as many steps as of GoPro's, the frame in their middle."""

Spikes = Path | NDArray[np.uint8] | Sequence[NDArray[np.uint8]]
"""Recorded spikes: a folder or a file, an array (S, h, w) for a whole clip, or one per frame."""


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
        self.ratio = Fraction(1)

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

    exposures: Sequence[Exposure]
    """Of each frame, in steps of its spikes."""

    def __init__(self, blur: Path | Pictures, bins: int) -> None:
        super().__init__(blur)
        self._bins = bins

    @abstractmethod
    def counts(self, frames: slice) -> list[NDArray[np.uint8]]:
        """Spikes per bin of consecutive frames, (K, h, w) each."""

    @property
    def binned(self) -> Sequence[Exposure]:
        """What the bins of each frame hold: its exposure, and context where there is some."""
        return self.exposures

    def open_spikes(self, frame: int) -> NDArray[np.integer]:
        """Spikes of each pixel while the shutter was open: (h, w)."""
        return self.counts(slice(frame, frame + 1))[0].sum(axis=0, dtype=np.int64)

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames and count their spikes."""
        steps = bin_table(self.binned[frames], self._bins)
        return SourceFrames(self.pictures.read(frames), np.stack(self.counts(frames)), steps)

    def gain(self) -> float:
        """The gain of the clip; reads all frames and spikes once, one frame at a time.

        Raises:
            DataError: if something cannot be read, or there is not a single spike.
        """
        meter = GainMeter()
        for number, exposure in enumerate(self.exposures):
            blur = self.pictures.read(slice(number, number + 1))[0]
            meter.add(blur, self.open_spikes(number), exposure.steps)
        return meter.gain(self.spikes)

    def _fit(self, rows: int, columns: int) -> Fraction:
        """Pixels of a frame for each spike pixel along each side.

        Raises:
            DataError: if they do not fit together.
        """
        try:
            return frame_scale(self.size, (rows, columns))
        except DataError as error:
            raise DataError(f"{self.pictures.place}: {error}, or crop the frames") from error


class RecordedSequence(SpikedSequence):
    """Blurry frames with recorded spikes, of which any steps can be read."""

    context: int = 0
    """Most steps of the closed shutter that bins take in, on each side."""

    @abstractmethod
    def spikes_of(self, frame: int, steps: Exposure) -> PackedSpikes:
        """Some steps of a frame's recording."""

    @abstractmethod
    def recorded_steps(self, frame: int) -> int:
        """Steps of a frame's recording."""

    @property
    def binned(self) -> Sequence[Exposure]:
        """The exposures with their context, as far as it was recorded."""
        return [
            exposure.widened(self.context, self.recorded_steps(frame))
            for frame, exposure in enumerate(self.exposures)
        ]

    def counts(self, frames: slice) -> list[NDArray[np.uint8]]:
        """Count the spikes of consecutive frames."""
        binned, counts = self.binned, []
        for frame in range(*frames.indices(len(self.names))):
            steps = binned[frame]
            spikes = self.spikes_of(frame, steps)
            voxels = voxelize_packed(spikes.rows, self._bins, steps.sharp - steps.start)
            counts.append(voxels[..., : spikes.columns])
        return counts

    def open_spikes(self, frame: int) -> NDArray[np.integer]:
        """Spikes of each pixel while the shutter was open: (h, w)."""
        return self.spikes_of(frame, self.exposures[frame]).total()


class FolderSequence(RecordedSequence):
    """Blurry frames with spike files.

    Args:
        blur: a folder of pictures, a video file, or frames that were opened before.
        spikes: a folder of ``.dat`` or ``.npz`` files with the frames' names, or one file for all
            frames. A table ``exposures.csv`` in or beside the folder of either says when each was
            exposed; without one the layout does, of a file for all frames after it was divided
            evenly.
        bins: bins of the voxel grid.
        sensor: rows and columns of the sensor as in its files; None is the size in
            ``.npz`` files or a ``config.yaml`` beside them or above, else that of the layout, which
            is a part of the frames' size.
        layout: tells exposures and the sensor.
        context: see :class:`RecordedSequence`.

    Raises:
        DataError: listing every frame without a partner and every file of a wrong size.
    """

    def __init__(
        self,
        blur: Path | Pictures,
        spikes: Path,
        bins: int,
        sensor: tuple[int, int] | None = None,
        layout: Layout = SPK_GOPRO,
        context: int = 0,
    ) -> None:
        super().__init__(blur, bins)
        self.spikes, self.context, self._layout = str(spikes), context, layout
        if not spikes.exists():
            raise DataError(
                f"{spikes}: no such file or folder; expected the spikes (.dat or .npz) of "
                f"{self.pictures.place}"
            )
        self.files = [spikes] if spikes.is_file() else self._partners(spikes)
        part = (self.size[0] // layout.scale, self.size[1] // layout.scale)
        told = told_sensor(self.files[0])
        self._sensor = sensor or (told and (told.height, told.width)) or layout.sensor or part
        self._area = picture_area(self._sensor, self.size, layout)
        self.ratio = self._fit(self._area.rows, self._area.columns)
        self._recordings = self._find_recordings(spikes, layout)
        self.exposures = [recording.exposure for recording in self._recordings]

    def doubts(self) -> list[str]:
        """A line for each frame that its spikes do not look like, and one if other steps do.

        Reads every file. A single step is no picture that could be compared.

        Raises:
            DataError: if the spikes look like a frame with another size of the sensor.
        """
        found = list[str]()
        compared = [n for n, exposure in enumerate(self.exposures) if exposure.steps >= 2]
        for number in compared:
            likeness = self._likeness(number)
            frame = self.pictures.describe(number)
            path, size = self._recordings[number].path, (self._area.rows, self._area.columns)
            fault = mismatch(likeness, path, frame, size)
            if fault and not found:
                self._require_size(number)
            found += [fault] if fault else []
        some = compared[:: max(1, len(compared) // _TIMED)]
        missed = [abs(steps) for steps in map(self._misplacement, some) if steps is not None]
        if missed and median(missed) > center_tolerance(self.exposures[some[0]].steps):
            found.append(
                f"{self.spikes}: frames are most like the spikes {median(missed):.0f} steps from "
                f"their exposures; give the right ones by {TABLE} or --layout"
            )
        return found

    def _gray(self, frame: int) -> NDArray[np.uint8]:
        return luma(self.pictures.read(slice(frame, frame + 1))[0]).astype(np.uint8)

    def _likeness(self, frame: int) -> Alignment:
        return align(self.spikes_of(frame, self.exposures[frame]), self._gray(frame), blurry=True)

    def _misplacement(self, frame: int) -> float | None:
        exposure = self.exposures[frame]
        seen = exposure.widened(exposure.steps // 2, self.recorded_steps(frame))
        within = exposure.moved(-seen.start)
        return misplacement(self.spikes_of(frame, seen), self._gray(frame), within)

    def _require_size(self, frame: int) -> None:
        """Refuse a size of the sensor where the order of the spikes tells another, which fits."""
        path, bins, spikes = self._recordings[frame].path, self._bins, Path(self.spikes)
        try:
            other = find_sensor(path)
            size = (other.height, other.width)
            clip = FolderSequence(self.pictures, spikes, bins, size, self._layout, self.context)
            correlation = clip._likeness(frame).correlation
        except DataError:
            return  # no other size is known, or frames and spikes do not fit with it
        if size != self._sensor and correlation > DOUBTED:
            raise DataError(
                f"{path}: with a sensor of {self._sensor[0]} x {self._sensor[1]} the spikes do not "
                f"show {self.pictures.describe(frame)}, with one of {size[0]} x {size[1]} they do "
                f"(correlation {correlation:.2f}): give --sensor {size[0]} {size[1]}"
            )

    def spikes_of(self, frame: int, steps: Exposure) -> PackedSpikes:
        """Some steps of the file that holds a frame."""
        path, area = self._recordings[frame].path, self._area
        return read_packed(path, *self._sensor, start=steps.start, count=steps.steps, area=area)

    def recorded_steps(self, frame: int) -> int:
        """Steps of the file that holds a frame."""
        return self._recordings[frame].total

    def _partners(self, spikes: Path) -> list[Path]:
        """The spike file of each frame, of a name that says what is missing where there is none."""
        folder, faults = spikes.absolute(), list[str]()
        names = {without_zeros(name): name for name in self.names}
        found = numbered(folder.parent, folder.name, SPIKE_SUFFIXES, "", names, faults)
        if faults:
            title = f"{spikes}: not one spike file for each frame"
            raise DataError(list_faults(title, faults, "Keep one for each frame."))
        default = SPIKE_SUFFIXES[0]
        return [spikes / Path(found.get(name, f"{name}{default}")).name for name in self.names]

    def _find_recordings(self, spikes: Path, layout: Layout) -> list[Recording]:
        """File and exposure of each frame."""
        places = (spikes.absolute(), Path(self.pictures.place).absolute())
        folders = dict.fromkeys(folder for place in places for folder in (place, place.parent))
        tables = [path for folder in folders if (path := folder / TABLE).is_file()]
        if len(tables) > 1:
            raise DataError(f"several tables of exposures: {', '.join(map(str, tables))}; keep one")
        self.all_files = [*self.files, *tables]
        table = str(tables[0]) if tables else None
        files = self.files * len(self.names) if spikes.is_file() else self.files
        paths = {name: str(file) for name, file in zip(self.names, files, strict=True)}
        found, faults = find_recordings(Path(), paths, self._sensor, layout, table)
        if faults:
            advice = (
                "Each frame needs a spike file (.dat, .npz) of its name; check the sensor size."
            )
            raise DataError(list_faults(f"{spikes}: frames without usable spikes", faults, advice))
        return list(found.values())


class ArraySequence(RecordedSequence):
    """Blurry frames with spikes in memory.

    Args:
        blur: the frames.
        spikes: uint8 (S, h, w) of 0 and 1 for the whole clip, divided evenly among the frames; or
            such an array for each frame.
        bins: bins of the voxel grid.
        exposures: of each frame, in steps of its spikes, of which those for the whole clip are then
            not divided; else a layout, which tells them from the steps of a frame's spikes.
        context: see :class:`RecordedSequence`.

    Raises:
        DataError: if spikes and frames do not fit together.
    """

    spikes = "spikes"

    def __init__(
        self,
        blur: Pictures,
        spikes: NDArray[np.uint8] | Sequence[NDArray[np.uint8]],
        bins: int,
        exposures: Sequence[Exposure] | Layout = SPK_GOPRO,
        context: int = 0,
    ) -> None:
        super().__init__(blur, bins)
        self.context = context
        frames = len(self.names)
        if isinstance(spikes, np.ndarray) and spikes.ndim == 3:
            if not isinstance(exposures, Layout):
                spikes = [spikes] * frames
            elif len(spikes) % frames:
                raise DataError(
                    f"spikes: {len(spikes)} spike frames cannot be divided evenly among {frames} "
                    "blurry frames; give one file per frame"
                )
            else:
                spikes = np.split(spikes, frames)
        self._spikes = list(spikes)
        if len(self._spikes) != frames:
            raise DataError(
                f"spikes: of {len(self._spikes)} exposures, expected one for each of the "
                f"{frames} frames, or one array (S, h, w) for all"
            )
        for number, recorded in enumerate(self._spikes):
            if recorded.dtype != np.uint8 or recorded.ndim != 3 or recorded.max(initial=0) > 1:
                raise DataError(
                    f"spikes of frame {number}: found {recorded.dtype} of shape {recorded.shape}, "
                    "expected uint8 (S, h, w) of 0 and 1"
                )
        sizes = {recorded.shape[1:] for recorded in self._spikes}
        if len(sizes) > 1:
            raise DataError(f"spikes: of several sizes, {sorted(sizes)}; expected one sensor")
        self.ratio = self._fit(*sizes.pop())
        if isinstance(exposures, Layout):
            exposures = [
                exposures.exposure_of(len(recorded), f"spikes of frame {number}")
                for number, recorded in enumerate(self._spikes)
            ]
        self.exposures = list(exposures)
        if len(self.exposures) != frames or any(
            exposure.start < 0 or exposure.stop > len(recorded)
            for exposure, recorded in zip(self.exposures, self._spikes, strict=True)
        ):
            raise DataError(
                f"exposures: found {self.exposures}, expected one for each of the {frames} frames, "
                "within the steps of its spikes"
            )

    def spikes_of(self, frame: int, steps: Exposure) -> PackedSpikes:
        """Some steps of a frame's spikes."""
        spikes = self._spikes[frame][steps.start : steps.stop]
        return PackedSpikes(pack_rows(spikes), spikes.shape[2])

    def recorded_steps(self, frame: int) -> int:
        """Steps of a frame's spikes."""
        return len(self._spikes[frame])


class SimulatedSequence(SpikedSequence):
    """Blurry frames with spikes simulated from the blurry frames themselves.

    Such spikes hold no more than the frames do: they show how a model runs, not how well it
    restores. Each exposure starts half-way from the frame before and ends half-way to the next.

    Args:
        blur: a folder of pictures, a video file, or frames that were opened before; with even
            sides.
        bins: bins of the voxel grid.

    Raises:
        DataError: if frames cannot be read or have an odd side.
    """

    def __init__(self, blur: Path | Pictures, bins: int) -> None:
        super().__init__(blur, bins)
        self.spikes = f"{self.pictures.place} (simulated spikes)"
        self.ratio = Fraction(2)
        height, width = self.size
        if height % 2 or width % 2:
            raise DataError(
                f"{self.pictures.place}: frames of {height} x {width} pixels; the simulated sensor "
                "has half the size, so both sides must be even: crop the frames, such as by "
                f"ffmpeg -vf crop={width - width % 2}:{height - height % 2}"
            )
        self.exposures = [_SIMULATED] * len(self.names)
        # The sensor's charge runs on from frame to frame, so they are simulated in order.
        self._reader = ForwardReader(self._simulate, KEPT_FRAMES)

    def counts(self, frames: slice) -> list[NDArray[np.uint8]]:
        """Simulate up to consecutive frames and count their spikes."""
        return self._reader.read(frames)

    def _simulate(self) -> Iterator[NDArray[np.uint8]]:
        """The counts of each frame, in order."""
        intervals = stream_spikes(self._halves(), _SIMULATED.steps // 2)
        for first, second in zip(intervals, intervals, strict=True):
            yield voxelize(
                np.concatenate([first, second]).view(np.uint8), self._bins, _SIMULATED.sharp
            )

    def _halves(self) -> Iterator[NDArray[np.uint8]]:
        """Each frame preceded by what lies half-way from the frame before it."""
        before: NDArray[np.uint8] | None = None
        for number in range(len(self.names)):
            frame = self.pictures.read(slice(number, number + 1))[0]
            middle = frame if before is None else cv2.addWeighted(before, 0.5, frame, 0.5, 0)
            yield np.asarray(middle, dtype=np.uint8)
            yield frame
            before = frame


def open_clip(
    run: RunIdentity,
    frames: Path | Pictures,
    spikes: Spikes | None,
    *,
    simulate_spikes: bool,
    sensor: tuple[int, int] | None,
    layout: str | None = None,
    exposures: Sequence[Exposure] | None = None,
) -> BlurrySequence:
    """A clip with the spikes that the model of a run takes.

    Args:
        run: that trained the model.
        frames: a folder of pictures, a video file, or frames that were opened before.
        spikes: recorded ones; in memory only if the frames are.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of spike files; None as for :class:`FolderSequence`.
        layout: of spikes, by its name; None is that of the run's data set, if it was named there,
            else Spk-GoPro's.
        exposures: of spikes in memory; None takes those of the layout.

    Raises:
        ConfigError: if the model takes spikes and there are none, or the other way round.
        DataError: if frames or spikes cannot be used.
    """
    settings = deblurring_settings(run.settings)
    _check_spikes(run, settings.MODEL.USE_SPIKE, spikes is not None, simulate_spikes)
    bins, context = settings.DATA.NUM_VOXEL_BINS, settings.DATA.CONTEXT_STEPS
    if simulate_spikes:
        return SimulatedSequence(frames, bins)
    if spikes is None:
        return BlurrySequence(frames)
    known = LAYOUTS.get(layout or settings.DATA.LAYOUT, SPK_GOPRO)
    if isinstance(spikes, Path):
        return FolderSequence(frames, spikes, bins, sensor, known, context)
    assert not isinstance(frames, Path)
    return ArraySequence(frames, spikes, bins, exposures or known, context)


def _check_spikes(run: RunIdentity, takes_spikes: bool, given: bool, simulated: bool) -> None:
    name = f"the model of run {run.name} ({run.fingerprint})"
    if given and simulated:
        raise ConfigError("give recorded spikes or have them simulated, not both")
    if (given or simulated) and not takes_spikes:
        raise ConfigError(
            f"{name} was trained without spikes (MODEL.USE_SPIKE is false); leave out "
            f"{'--spikes' if given else '--simulate-spikes'}"
        )
    if takes_spikes and not (given or simulated):
        raise ConfigError(
            f"{name} takes spikes (MODEL.USE_SPIKE is true); give recorded ones (--spikes), or "
            "have them simulated (--simulate-spikes), which shows how it runs, not how well it "
            "restores"
        )
