"""The spikes of a clip: from files, from arrays, or simulated from the frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import EXPOSURE_TABLE, POSSIBLE_EXPOSURE, Exposure, is_possible
from vrtspike.data.raw.layouts.files import SPIKE_SUFFIXES, sensor_file
from vrtspike.data.raw.layouts.folders import list_frames
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.data.raw.recordings import find_recordings, find_sensor
from vrtspike.data.raw.spikes import PackedSpikes, Sensor, size_ratio
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.io.images import to_8_bit
from vrtspike.restoration.inputs.clip_frames import ClipFrames
from vrtspike.system.errors import DataError, list_faults

_SIMULATED = Exposure(0, 88, 44)
"""Number of steps that are simulated for a blurry frame: as many as in GoPro's exposures, with the
frame in the middle."""

SIMULATED = "simulated from the blurry frames: they hold no more than the frames do"


class FrameSpikes(ABC):
    """The spikes of one frame, from any source.

    Attributes:
        exposure: exposure in steps of its recording.
        total: steps of the recording.
        path: the spike file; None for spikes in memory and simulated ones.
        recording: equal for frames of one recording; None for simulated spikes.
    """

    path: Path | None = None
    recording: Hashable | None = None

    def __init__(self, exposure: Exposure, total: int) -> None:
        self.exposure = exposure
        self.total = total

    @abstractmethod
    def read(self, steps: Exposure) -> PackedSpikes:
        """Return the spikes of an interval of the recording."""

    def around(self, context: int) -> tuple[PackedSpikes, Exposure]:
        """Return the spikes of the exposure and up to ``context`` recorded steps on each side.

        Returns:
            the spikes, and the exposure in steps of these.
        """
        widened = self.exposure.widened(context, self.total)
        return self.read(widened), self.exposure.moved(-widened.start)


class SpikesInFile(FrameSpikes):
    """The spikes of a frame in a file, which may hold those of other frames, too."""

    def __init__(self, exposure: Exposure, total: int, file: Path, sensor: Sensor) -> None:
        super().__init__(exposure, total)
        self.path = file
        self.recording = file
        self._file = file
        self._sensor = sensor

    def read(self, steps: Exposure) -> PackedSpikes:
        """Return the spikes of an interval of the file."""
        return self._sensor.read(self._file, steps.start, steps.steps)


class SpikesInMemory(FrameSpikes):
    """The spikes of a frame in an array, uint8 (S, h, w) of 0 and 1."""

    def __init__(self, exposure: Exposure, spikes: NDArray[np.uint8]) -> None:
        super().__init__(exposure, len(spikes))
        self.recording = id(spikes)
        self._spikes = spikes

    def read(self, steps: Exposure) -> PackedSpikes:
        """Return the spikes of an interval of the array."""
        return PackedSpikes.pack(self._spikes[steps.start : steps.stop])


class SimulatedSpikes(FrameSpikes):
    """The spikes of a frame, simulated from it and its neighbours."""

    def __init__(self, clip_frames: ClipFrames, index: int) -> None:
        super().__init__(_SIMULATED, _SIMULATED.steps)
        self._clip_frames = clip_frames
        self._index = index

    def read(self, steps: Exposure) -> PackedSpikes:
        """Simulate the whole exposure, and return the spikes of an interval."""
        first = max(0, self._index - 1)
        last = min(len(self._clip_frames.names) - 1, self._index + 1)
        window = to_8_bit(self._clip_frames.read(slice(first, last + 1)))
        middle = window[self._index - first]
        scene = [_mean_frame(window[0], middle), middle, _mean_frame(window[-1], middle)]
        spikes = simulate_spikes(scene, steps_per_frame=_SIMULATED.steps // 2, seed=self._index)
        return PackedSpikes.pack(spikes[steps.start : steps.stop])


@dataclass(frozen=True)
class ClipSpikes:
    """The spikes of a clip.

    Attributes:
        origin: their source, in words.
        location: their name in messages.
        ratio: pixels of a frame for each spike pixel along each side.
        frames: the spikes of each frame.
        files: the spike files, and their table of exposures if there is one.
        sensor: the sensor that files are read with; None for spikes in memory and simulated ones.
        layout: name of the layout that files are read with; None likewise.
    """

    origin: str
    location: str
    ratio: Fraction
    frames: Sequence[FrameSpikes]
    files: Sequence[Path] = ()
    sensor: Sensor | None = None
    layout: str | None = None

    @cached_property
    def exposures(self) -> Mapping[Hashable, NDArray[np.int64]]:
        """Starts and stops (2, N) of the N exposures of each recording; of no simulated spikes."""
        intervals: dict[Hashable, list[tuple[int, int]]] = {}
        for frame in self.frames:
            if frame.recording is not None:
                interval = (frame.exposure.start, frame.exposure.stop)
                intervals.setdefault(frame.recording, []).append(interval)
        return {recording: np.array(pairs).T for recording, pairs in intervals.items()}


def frame_to_sensor_ratio(clip_frames: ClipFrames, sensor: tuple[int, int]) -> Fraction:
    """Return pixels of a frame for each spike pixel along each side.

    Args:
        clip_frames: the frames.
        sensor: rows and columns of the sensor.

    Raises:
        DataError: if the two sizes do not fit together.
    """
    try:
        return size_ratio(clip_frames.size, sensor)
    except DataError as error:
        raise DataError(f"{clip_frames.location}: {error}, or crop the frames") from error


def recorded_spikes(
    clip_frames: ClipFrames,
    path: Path,
    sensor: tuple[int, int] | None = None,
    layout: Layout = SPK_GOPRO,
) -> ClipSpikes:
    """Return spikes in files.

    A table ``exposures.csv`` in or beside the folder of spikes or of frames gives the exposures.
    Without one the layout does; a file for all frames is divided evenly first.

    Args:
        clip_frames: their blurry frames.
        path: a folder of ``.dat`` or ``.npz`` files with the frames' names, or one file for all
            frames.
        sensor: rows and columns of the sensor as in its files; None is the size in
            ``.npz`` files or a ``config.yaml`` beside them or above, else that of the layout, which
            is a part of the frames' size.
        layout: gives exposures and the sensor.

    Raises:
        DataError: listing every frame without a partner, or if a file has a wrong size.
    """
    if not path.exists():
        raise DataError(
            f"{path}: no such file or folder; expected the spikes (.dat or .npz) of "
            f"{clip_frames.location}"
        )
    names = clip_frames.names
    paths = [path] * len(names) if path.is_file() else _spike_files(path, names)
    file_sensor = find_sensor(paths[0], sensor, sensor_file(paths[0]), layout, clip_frames.size)
    ratio = frame_to_sensor_ratio(clip_frames, file_sensor.area.size)
    tables = _find_tables(path, clip_frames.path)
    table = str(tables[0]) if tables else None
    files = {name: str(file) for name, file in zip(names, paths, strict=True)}
    recordings, faults = find_recordings(
        Path(), files, file_sensor.size, layout, table, has_sharp=False
    )
    if faults:
        advice = "Each frame needs a spike file (.dat, .npz) of its name; check the sensor size."
        raise DataError(list_faults(f"{path}: frames without usable spikes", faults, advice))

    frames = [
        SpikesInFile(recording.exposure, recording.total, file, file_sensor)
        for file, recording in zip(paths, recordings.values(), strict=True)
    ]
    inputs = [*dict.fromkeys(paths), *tables]
    return ClipSpikes("recorded", str(path), ratio, frames, inputs, file_sensor, layout.name)


def _spike_files(folder: Path, frames: Sequence[str]) -> list[Path]:
    """Return the spike file of each frame.

    Raises:
        DataError: naming the frames without one.
    """
    absolute = folder.absolute()
    listing = list_frames(absolute.parent, f"{absolute.name}/", SPIKE_SUFFIXES, frames)
    files = listing.files
    missing = [name for name in frames if name not in files]
    faults = [*listing.faults, *(f"{folder / name}.dat: no such file" for name in missing)]
    if faults:
        title = f"{folder}: not one spike file for each frame"
        raise DataError(list_faults(title, faults, "Keep one (.dat, .npz) for each frame."))
    return [folder / Path(files[name]).name for name in frames]


def _find_tables(spikes: Path, frames: Path | None) -> list[Path]:
    """Return the table of exposures, if any, in or beside a folder of spikes or of frames.

    Args:
        spikes: a file or a folder.
        frames: likewise; None if they are in memory.

    Raises:
        DataError: if there are several.
    """
    folders = []
    for source in (spikes, frames):
        if source is not None:
            folders += [source.absolute(), source.absolute().parent]
    tables = [
        folder / EXPOSURE_TABLE
        for folder in dict.fromkeys(folders)
        if (folder / EXPOSURE_TABLE).is_file()
    ]
    if len(tables) > 1:
        raise DataError(f"several tables of exposures: {', '.join(map(str, tables))}; keep one")
    return tables


def array_spikes(
    clip_frames: ClipFrames,
    spikes: NDArray[np.uint8] | Sequence[NDArray[np.uint8]],
    exposures: Sequence[Exposure] | Layout = SPK_GOPRO,
) -> ClipSpikes:
    """Return spikes in memory.

    Args:
        clip_frames: their blurry frames.
        spikes: uint8 (S, h, w) of 0 and 1 for the whole clip, divided evenly among the frames; or
            an array like this for each frame.
        exposures: exposure of each frame, within the steps of its spikes; spikes for the whole clip
            are not divided then. Or a layout, which gives the exposure for a number of steps.

    Raises:
        DataError: if spikes and frames do not fit together.
    """
    count = len(clip_frames.names)
    recordings = [np.asarray(part) for part in _by_frame(spikes, count, exposures)]
    _require_spikes_of_frames(recordings, count)
    if isinstance(exposures, Layout):
        exposures = [
            exposures.exposure_of(len(part), f"spikes of frame {index}")
            for index, part in enumerate(recordings)
        ]
    else:
        _require_exposures_within(exposures, recordings)

    height, width = recordings[0].shape[1:]
    ratio = frame_to_sensor_ratio(clip_frames, (height, width))
    frames = [
        SpikesInMemory(exposure, part) for exposure, part in zip(exposures, recordings, strict=True)
    ]
    return ClipSpikes("recorded", "spikes", ratio, frames)


def _by_frame(
    spikes: NDArray[np.uint8] | Sequence[NDArray[np.uint8]],
    count: int,
    exposures: Sequence[Exposure] | Layout,
) -> Sequence[NDArray[np.uint8]]:
    """Return one array for each of ``count`` frames, or all in one if indivisible.

    Raises:
        DataError: if the spikes are neither an array nor several.
    """
    if not isinstance(spikes, np.ndarray | Sequence):
        raise DataError(f"spikes: found {type(spikes).__name__}, expected an array or a path")
    if not isinstance(spikes, np.ndarray):
        return spikes
    if spikes.ndim != 3:
        return list(np.atleast_1d(spikes))
    if not isinstance(exposures, Layout):
        return [spikes] * count
    if len(spikes) % count:
        return [spikes]
    return np.split(spikes, count)


def _require_spikes_of_frames(recordings: Sequence[NDArray[np.uint8]], count: int) -> None:
    """Reject arrays that are not the spikes of ``count`` frames from one sensor.

    Raises:
        DataError: with the arrays found.
    """
    for index, part in enumerate(recordings):
        if part.ndim != 3 or part.size == 0:
            raise DataError(
                f"spikes of frame {index}: found {part.dtype} of shape {part.shape}, expected "
                "uint8 (S, h, w) of 0 and 1, of at least one step, row and column"
            )
    # All frames may share one recording.
    distinct = {id(part): part for part in recordings}.values()
    kinds = sorted({f"{part.dtype} {part.shape[1:]}" for part in distinct})
    are_spikes = all(part.dtype == np.uint8 and part.max() <= 1 for part in distinct)
    if len(recordings) != count or len(kinds) != 1 or not are_spikes:
        raise DataError(
            f"spikes: found {len(recordings)} arrays of {sum(map(len, recordings))} steps "
            f"({', '.join(kinds)}), expected one for each of the {count} frames, uint8 (S, h, w) "
            f"of 0 and 1 of one sensor, or one for all, of a multiple of {count} steps"
        )


def _require_exposures_within(
    exposures: Sequence[Exposure], recordings: Sequence[NDArray[np.uint8]]
) -> None:
    """Reject exposures that are not one for each recording, or that leave its steps.

    Raises:
        DataError: naming them all by their positions.
    """
    if len(exposures) != len(recordings):
        raise DataError(
            f"exposures: found {len(exposures)}, expected one for each of the {len(recordings)} "
            "frames"
        )
    faults = [
        f"exposures[{index}]: found {exposure}; the spikes have {len(part)} steps"
        for index, (exposure, part) in enumerate(zip(exposures, recordings, strict=True))
        if not is_possible(exposure) or exposure.stop > len(part)
    ]
    if faults:
        title = "exposures that the spikes of their frames do not contain"
        advice = f"Expected within the steps of the frame's spikes: {POSSIBLE_EXPOSURE}."
        raise DataError(list_faults(title, faults, advice, limit=10))


def simulated_spikes(clip_frames: ClipFrames) -> ClipSpikes:
    """Return spikes simulated from the blurry frames themselves.

    Such spikes contain no more information than the frames: they show that a model runs, not how
    well it restores. Each exposure starts half-way from the frame before and ends half-way to the
    next.

    Args:
        clip_frames: the frames, with even sides: the sensor has half their size.

    Raises:
        DataError: if frames have an odd side.
    """
    height, width = clip_frames.size
    if height % 2 or width % 2:
        raise DataError(
            f"{clip_frames.location}: found frames of {height} x {width} pixels, expected even "
            "sides, as the simulated sensor has half of them; crop the frames"
        )
    frames = [SimulatedSpikes(clip_frames, index) for index in range(len(clip_frames.names))]
    return ClipSpikes(SIMULATED, f"{clip_frames.location} (simulated spikes)", Fraction(2), frames)


def _mean_frame(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the mean of two frames, rounded: uint8 (H, W, 3)."""
    return np.asarray(cv2.addWeighted(first, 0.5, second, 0.5, 0), np.uint8)
