"""The clips that users give: blurry frames with spike files, with arrays or without spikes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.bins import bin_table
from vrtspike.data.exposure import TABLE, Exposure
from vrtspike.data.gate.alignment import align, center_tolerance, mismatch, misplacement
from vrtspike.data.raw.layouts.files import SPIKE_SUFFIXES, sensor_file
from vrtspike.data.raw.layouts.folders import frame_key, numbered
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.data.raw.packed import PackedSpikes, pack_rows
from vrtspike.data.raw.recordings import find_recordings, find_sensor
from vrtspike.data.raw.spikes import Sensor, frame_scale
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.data.store.voxels import GainMeter, voxelize_packed
from vrtspike.io.images import luma
from vrtspike.restoration.pictures import Pictures, open_pictures
from vrtspike.restoration.sources import Frames, FrameSource
from vrtspike.runs.identity import RunIdentity
from vrtspike.settings import deblurring_settings
from vrtspike.system.errors import ConfigError, DataError, list_faults

_TIMED = 8
"""Frames, about, whose place in time is looked for."""
_FAR = 4.0
"""Exposures before and after its own in which the place of a frame with other spikes is looked
for."""
_SINGLE = 2.0
"""Tolerances of a whole clip that the place of a single frame may miss: it is less certain."""
_SIMULATED = Exposure(0, 88, 44)
"""Spikes simulated of a blurry frame: as many steps as of GoPro's, the frame in their middle."""

SIMULATED = "simulated from the blurry frames: they hold no more than the frames do"

Spikes = Path | NDArray[np.uint8] | Sequence[NDArray[np.uint8]]
"""Recorded spikes: a folder or a file, an array (S, h, w) for a whole clip, or one per frame."""


@dataclass(frozen=True)
class FrameSpikes:
    """The spikes of one frame, wherever they are from.

    Attributes:
        exposure: in steps of its recording.
        total: steps of the recording.
        read: gives some of them.
        path: the spike file; None for spikes in memory and simulated ones.
        recording: equal for frames of one recording; None for simulated spikes.
    """

    exposure: Exposure
    total: int
    read: Callable[[Exposure], PackedSpikes]
    path: Path | None = None
    recording: Hashable | None = None

    def around(self, context: int) -> tuple[PackedSpikes, Exposure]:
        """The exposure with at most so many recorded steps on each side, and its place there."""
        seen = self.exposure.widened(context, self.total)
        return self.read(seen), self.exposure.moved(-seen.start)


@dataclass(frozen=True)
class ClipSpikes:
    """The spikes of a clip.

    Attributes:
        origin: where they are from, in words.
        place: what messages call them.
        ratio: pixels of a frame for each spike pixel along each side.
        frames: those of each frame.
        files: those of the spikes, and their table of exposures if there is one.
        sensor: what the files are read as; None for spikes in memory and simulated ones.
    """

    origin: str
    place: str
    ratio: Fraction
    frames: Sequence[FrameSpikes]
    files: Sequence[Path] = ()
    sensor: Sensor | None = None


@dataclass(frozen=True)
class GivenClip(FrameSource):
    """Blurry frames with their spikes, if any: from :func:`given_clip`.

    At most one reader reads ahead: a video is decoded by one thread at a time.
    """

    pictures: Pictures
    spikes: ClipSpikes | None
    rate: Callable[[], float | None]
    """Gives the mean spikes of a pixel per step of the exposures, None without spikes."""


def given_clip(
    pictures: Pictures, spikes: ClipSpikes | None = None, bins: int = 0, context: int = 0
) -> GivenClip:
    """Blurry frames and their spikes as a clip.

    Args:
        pictures: the frames.
        spikes: of these frames; None for a model without.
        bins: bins of the voxel grid.
        context: most steps of the closed shutter that bins take in, on each side, as far as they
            were recorded.
    """

    def read(frames: slice) -> Frames:
        found: dict[str, NDArray[Any]] = {"blur": pictures.model_input(frames)}
        if spikes is not None:
            seen = [each.around(context) for each in spikes.frames[frames]]
            counts = [voxelize_packed(part, bins, exposure.sharp) for part, exposure in seen]
            found["counts"] = np.stack(counts)
            binned = [Exposure(0, len(part), exposure.sharp) for part, exposure in seen]
            found["bin_steps"] = bin_table(binned, bins)
        return found

    @cache
    def light() -> tuple[float, float] | None:
        """Gain and mean rate; reads all frames, one at a time."""
        if spikes is None:
            return None
        meter = GainMeter()
        spike_count = 0.0
        pixel_steps = 0
        for number, frame in enumerate(spikes.frames):
            counts = frame.read(frame.exposure).picture()
            meter.add(pictures.frame(number), counts, frame.exposure.steps)
            spike_count += float(counts.sum(dtype=np.float64))
            pixel_steps += counts.size * frame.exposure.steps
        return meter.gain(spikes.place), spike_count / pixel_steps

    def gain() -> float | None:
        measured = light()
        return None if measured is None else measured[0]

    def rate() -> float | None:
        measured = light()
        return None if measured is None else measured[1]

    ratio = Fraction(1) if spikes is None else spikes.ratio
    return GivenClip(pictures.names, pictures.size, ratio, read, gain, pictures, spikes, rate)


def recorded_spikes(
    pictures: Pictures,
    path: Path,
    sensor: tuple[int, int] | None = None,
    layout: Layout = SPK_GOPRO,
) -> ClipSpikes:
    """Spikes in files.

    Args:
        pictures: their blurry frames.
        path: a folder of ``.dat`` or ``.npz`` files with the frames' names, or one file for all
            frames. A table ``exposures.csv`` in or beside the folder of either says when each was
            exposed; without one the layout does, of a file for all frames after it was divided
            evenly.
        sensor: rows and columns of the sensor as in its files; None is the size in
            ``.npz`` files or a ``config.yaml`` beside them or above, else that of the layout, which
            is a part of the frames' size.
        layout: tells exposures and the sensor.

    Raises:
        DataError: listing every frame without a partner, or if a file is of a wrong size.
    """
    if not path.exists():
        raise DataError(
            f"{path}: no such file or folder; expected the spikes (.dat or .npz) of "
            f"{pictures.place}"
        )
    names = pictures.names
    paths = [path] * len(names) if path.is_file() else _partners(path, names)
    known = find_sensor(paths[0], sensor, sensor_file(paths[0]), layout, pictures.size)
    ratio = _ratio(pictures, known.area.size)
    tables = _find_tables(path, pictures.place)
    table = str(tables[0]) if tables else None
    files = {name: str(file) for name, file in zip(names, paths, strict=True)}
    found, faults = find_recordings(Path(), files, known.size, layout, table, has_sharp=False)
    if faults:
        advice = "Each frame needs a spike file (.dat, .npz) of its name; check the sensor size."
        raise DataError(list_faults(f"{path}: frames without usable spikes", faults, advice))

    def read(file: Path, steps: Exposure) -> PackedSpikes:
        return known.read(file, steps.start, steps.steps)

    frames = [
        FrameSpikes(recording.exposure, recording.total, partial(read, file), file, file)
        for file, recording in zip(paths, found.values(), strict=True)
    ]
    inputs = [*dict.fromkeys(paths), *tables]
    return ClipSpikes("recorded", str(path), ratio, frames, inputs, known)


def _ratio(pictures: Pictures, sensor: tuple[int, int]) -> Fraction:
    """Pixels of a frame for each spike pixel along each side.

    Raises:
        DataError: if they do not fit together.
    """
    try:
        return frame_scale(pictures.size, sensor)
    except DataError as error:
        raise DataError(f"{pictures.place}: {error}, or crop the frames") from error


def _partners(folder: Path, frames: Sequence[str]) -> list[Path]:
    """The spike file of each frame.

    Raises:
        DataError: naming the frames without one.
    """
    faults = list[str]()
    names = {frame_key(name): name for name in frames}
    place = folder.absolute()
    found = numbered(place.parent, f"{place.name}/", SPIKE_SUFFIXES, names, faults)
    faults += [f"{folder / name}.dat: no such file" for name in frames if name not in found]
    if faults:
        title = f"{folder}: not one spike file for each frame"
        raise DataError(list_faults(title, faults, "Keep one (.dat, .npz) for each frame."))
    return [folder / Path(found[name]).name for name in frames]


def _find_tables(spikes: Path, frames: Path | str) -> list[Path]:
    """The table of exposures, if any, in or beside a folder of spikes or of frames, if it is one.

    Raises:
        DataError: if there are several.
    """
    places = [place.absolute() for place in (spikes, frames) if isinstance(place, Path)]
    folders = dict.fromkeys(folder for place in places for folder in (place, place.parent))
    tables = [path for folder in folders if (path := folder / TABLE).is_file()]
    if len(tables) > 1:
        raise DataError(f"several tables of exposures: {', '.join(map(str, tables))}; keep one")
    return tables


def array_spikes(
    pictures: Pictures,
    spikes: NDArray[np.uint8] | Sequence[NDArray[np.uint8]],
    exposures: Sequence[Exposure] | Layout = SPK_GOPRO,
) -> ClipSpikes:
    """Spikes in memory.

    Args:
        pictures: their blurry frames.
        spikes: uint8 (S, h, w) of 0 and 1 for the whole clip, divided evenly among the frames; or
            such an array for each frame.
        exposures: of each frame, in steps of its spikes, of which those for the whole clip are then
            not divided; else a layout, which tells them from the steps of a frame's spikes.

    Raises:
        DataError: if spikes and frames do not fit together.
    """
    count = len(pictures.names)
    if isinstance(spikes, np.ndarray) and spikes.ndim == 3:
        if isinstance(exposures, Layout):
            spikes = [spikes] if len(spikes) % count else np.split(spikes, count)
        else:
            spikes = [spikes] * count
    recordings = [np.asarray(part) for part in spikes]
    kinds = sorted({f"{part.dtype} {part.shape[1:]}" for part in recordings})
    are_spikes = all(
        part.dtype == np.uint8 and part.ndim == 3 and part.max(initial=0) <= 1
        for part in recordings
    )
    if len(recordings) != count or len(kinds) != 1 or not are_spikes:
        raise DataError(
            f"spikes: found {len(recordings)} arrays of {sum(map(len, recordings))} steps "
            f"({', '.join(kinds)}), expected one for each of the {count} frames, uint8 (S, h, w) "
            f"of 0 and 1 of one sensor, or one for all, of a multiple of {count} steps"
        )
    if isinstance(exposures, Layout):
        exposures = [
            exposures.exposure_of(len(part), f"spikes of frame {number}")
            for number, part in enumerate(recordings)
        ]
    if len(exposures) != count or any(
        exposure.start < 0 or exposure.stop > len(part)
        for exposure, part in zip(exposures, recordings, strict=True)
    ):
        raise DataError(
            f"exposures: found {exposures}, expected one for each of the {count} frames, within "
            "the steps of its spikes"
        )

    def read(part: NDArray[np.uint8], steps: Exposure) -> PackedSpikes:
        return PackedSpikes(pack_rows(part[steps.start : steps.stop]), part.shape[2])

    height, width = recordings[0].shape[1:]
    frames = [
        FrameSpikes(exposure, len(part), partial(read, part), recording=id(part))
        for exposure, part in zip(exposures, recordings, strict=True)
    ]
    return ClipSpikes("recorded", "spikes", _ratio(pictures, (height, width)), frames)


def simulated_spikes(pictures: Pictures) -> ClipSpikes:
    """Spikes simulated from the blurry frames themselves.

    Such spikes hold no more than the frames do: they show how a model runs, not how well it
    restores. Each exposure starts half-way from the frame before and ends half-way to the next.

    Args:
        pictures: the frames, with even sides: the sensor has half their size.

    Raises:
        DataError: if frames have an odd side.
    """
    height, width = pictures.size
    if height % 2 or width % 2:
        raise DataError(
            f"{pictures.place}: found frames of {height} x {width} pixels, expected even sides, as "
            "the simulated sensor has half of them; crop the frames"
        )
    count = len(pictures.names)

    def read(frame: int, steps: Exposure) -> PackedSpikes:
        first, last = max(0, frame - 1), min(count - 1, frame + 1)
        near = pictures.read(slice(first, last + 1))
        before, seen, after = near[0], near[frame - first], near[-1]
        begin, end = (cv2.addWeighted(other, 0.5, seen, 0.5, 0) for other in (before, after))
        scene = [np.asarray(image, np.uint8) for image in (begin, seen, end)]
        spikes = simulate_spikes(scene, steps_per_frame=_SIMULATED.steps // 2, seed=frame)
        return PackedSpikes(pack_rows(spikes[steps.start : steps.stop]), spikes.shape[2])

    frames = [FrameSpikes(_SIMULATED, _SIMULATED.steps, partial(read, n)) for n in range(count)]
    return ClipSpikes(SIMULATED, f"{pictures.place} (simulated spikes)", Fraction(2), frames)


def doubts(clip: GivenClip) -> list[str]:
    """A line for each frame that its spike file does not look like, and one if other steps do.

    Reads every file. A single step is no picture that could be compared.
    """
    if clip.spikes is None:
        return []
    compared = [
        number
        for number, spikes in enumerate(clip.spikes.frames)
        if spikes.path is not None and spikes.exposure.steps >= 2
    ]
    if not compared:
        return []
    mismatches = _mismatches(clip, compared)
    timed = compared[:: max(1, len(compared) // _TIMED)]
    offsets = _offsets(clip, timed)
    tolerance = center_tolerance(clip.spikes.frames[compared[0]].exposure.steps)
    missed = [abs(offset) for offset in offsets.values()]
    faults = dict(mismatches)
    if missed and median(missed) > tolerance:
        return [
            *faults.values(),
            f"{clip.spikes.place}: frames are most like the spikes {median(missed):.0f} steps from "
            f"their exposures; give the right ones by {TABLE} or --layout",
        ]
    if len(mismatches) < len(compared) / 2:
        # The other frames fit, so a single exposure is wrong, not the sensor or the whole table.
        single = list(mismatches)[:_TIMED]
        offsets |= _offsets(clip, single, reach=_FAR)
        for number, offset in offsets.items():
            limit = tolerance if number in mismatches else _SINGLE * tolerance
            if abs(offset) > limit:
                faults[number] = _wrong_exposure(clip, number, offset)
    return [faults[number] for number in sorted(faults)]


def _gray(clip: GivenClip, number: int) -> NDArray[np.uint8]:
    return luma(clip.pictures.frame(number)).astype(np.uint8)


def _mismatches(clip: GivenClip, numbers: Sequence[int]) -> dict[int, str]:
    """Frames whose spikes do not show them, and in which way."""
    if clip.spikes is None:
        return {}
    size = (int(clip.size[0] / clip.ratio), int(clip.size[1] / clip.ratio))
    faults = {}
    for number in numbers:
        spikes = clip.spikes.frames[number]
        alignment = align(spikes.read(spikes.exposure), _gray(clip, number), blurry=True)
        place = str(spikes.path)
        fault = mismatch(alignment, place, clip.pictures.describe(number), size)
        if fault:
            faults[number] = fault
    return faults


def _offsets(clip: GivenClip, numbers: Sequence[int], reach: float = 0.5) -> dict[int, float]:
    """Steps from the exposures of frames to where the spikes are most like them, where that tells.

    Args:
        clip: with spikes.
        numbers: the frames.
        reach: part of an exposure up to which is looked before and after it.
    """
    if clip.spikes is None:
        return {}
    offsets = {}
    for number in numbers:
        spikes = clip.spikes.frames[number]
        recorded, exposure = spikes.around(int(reach * spikes.exposure.steps))
        offset = misplacement(recorded, _gray(clip, number), exposure)
        if offset is not None:
            offsets[number] = offset
    return offsets


def _wrong_exposure(clip: GivenClip, number: int, offset: float) -> str:
    """The message about a single frame whose exposure is wrong."""
    if clip.spikes is None:
        return ""
    spikes = clip.spikes.frames[number]
    table = next((path for path in clip.spikes.files if path.name == TABLE), None)
    place = spikes.path if table is None else table
    advice = "check this file" if table is None else "correct its line"
    start, stop, _ = spikes.exposure
    return (
        f"{place}, frame {clip.names[number]}: found the exposure {start} to {stop}, but the frame "
        f"is most like the spikes {abs(offset):.0f} steps {'later' if offset > 0 else 'earlier'}, "
        f"while other frames fit their exposures; {advice}"
    )


def open_clip(
    run: RunIdentity,
    frames: Path | Pictures,
    spikes: Spikes | None = None,
    *,
    simulate_spikes: bool = False,
    sensor: tuple[int, int] | None = None,
    layout: str | None = None,
    exposures: Sequence[Exposure] | None = None,
) -> GivenClip:
    """A clip with the spikes that the model of a run takes.

    Args:
        run: that trained the model.
        frames: a folder of pictures, a video file, or frames that were opened before.
        spikes: recorded ones.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of spike files; None as for :func:`recorded_spikes`.
        layout: of spikes, by its name; None is that of the run's data set, if it was named there,
            else Spk-GoPro's.
        exposures: of spikes in memory; None takes those of the layout.

    Raises:
        ConfigError: if the model takes spikes and there are none, or the other way round; or if
            exposures are given of others than spikes in memory.
        DataError: if frames or spikes cannot be used.
    """
    settings = deblurring_settings(run.settings)
    pictures = open_pictures(frames) if isinstance(frames, Path) else frames
    if (spikes is not None) + simulate_spikes != settings.MODEL.USE_SPIKE:
        takes = (
            "takes spikes (MODEL.USE_SPIKE is true); give either recorded ones (--spikes) or have "
            "them simulated (--simulate-spikes)"
            if settings.MODEL.USE_SPIKE
            else "was trained without spikes (MODEL.USE_SPIKE is false); leave out --spikes and "
            "--simulate-spikes"
        )
        raise ConfigError(f"the model of run {run.name} ({run.fingerprint}) {takes}")
    if exposures is not None and (spikes is None or isinstance(spikes, Path)):
        raise ConfigError(f"exposures: only spikes in memory take them; files have {TABLE}")
    known = LAYOUTS.get(layout or settings.DATA.LAYOUT, SPK_GOPRO)
    found = None
    if simulate_spikes:
        found = simulated_spikes(pictures)
    elif isinstance(spikes, Path):
        found = recorded_spikes(pictures, spikes, sensor, known)
    elif spikes is not None:
        found = array_spikes(pictures, spikes, known if exposures is None else exposures)
    return given_clip(pictures, found, settings.DATA.NUM_VOXEL_BINS, settings.DATA.CONTEXT_STEPS)
