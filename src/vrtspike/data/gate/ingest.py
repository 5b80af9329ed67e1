"""Check one sequence completely and write what it consists of: the ingest manifest.

All faults of a sequence are collected in the manifest; a sequence with faults goes no further than
the gate of :mod:`vrtspike.data.gate.accept`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.gate.alignment import Alignment, align, center_tolerance, mismatch, order_fault
from vrtspike.data.gate.consistency import Consistency
from vrtspike.data.gate.exposure_length import Lengths, compare_lengths, length_faults, widening
from vrtspike.data.gate.frame_views import FrameView, gray, view_picture, view_spikes
from vrtspike.data.gate.levels import STANDARD_ERROR
from vrtspike.data.manifests import INGESTED
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.registry import LAYOUTS, frame_faults
from vrtspike.data.raw.numbering import frame_order
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.recordings import Recording, find_recordings, sequence_sensor
from vrtspike.data.raw.spikes import Sensor, frame_scale
from vrtspike.io.images import read_rgb
from vrtspike.io.manifests import file_entry
from vrtspike.system.errors import DataError

CENTER_PRECISION = 3.0
"""Steps by which the centre of one exposure may be missed; half a source frame less (a file cut by
eight steps) is 4. Also the most by which a sequence's median may be off, beyond its uncertainty:
0.0 to 2.1 in generated data of many kinds, 0.4 in real spikes."""
MIN_CENTERS = 3
"""Fewest located exposures whose median is trusted that far."""
CLEAR = 0.8
"""Median correlation from which centres are: 0.9 and more in most data. In dark scenes few spikes
leave 0.4 to 0.75, and single centres are off by up to 28 steps, medians by up to 11."""


def ingest_sequence(
    root: str | Path, files: SequenceFiles, spike_size: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Check a sequence: names, pictures, spike files, and that spikes and frames belong together.

    Frames are read one at a time. A sequence without any spike file has no faults for that: whether
    the others have them, survey and gate look at.

    Args:
        root: the data set's folder.
        files: of the sequence.
        spike_size: rows and columns of the sensor (columns as in the file, 416 for Vidar dumps
            with header columns); None takes the size in a ``config.yaml`` beside the spikes or
            that of an ``.npz`` file, else half the frames' size.

    Returns:
        The ingest manifest, but for ``source_version`` and ``recipe``; its list ``faults`` is empty
        where the sequence can be used. ``frames`` holds those that can be read.
    """
    base = Path(root)
    names = sorted(set(files.blur) & set(files.sharp), key=frame_order)
    checks = _Checks(base, files)
    checks.faults += [*files.faults, *frame_faults(files)]
    checks.check(names, spike_size)
    sensor = checks.sensor
    return {
        "schema": INGESTED.schema,
        "sequence": files.name,
        "split": files.split,
        "layout": files.layout,
        "spikes": files.has_spikes,
        "blur_dir": files.blur_dir,
        "files": [file_entry(base, path) for path in files.paths],
        "rgb_size": list(checks.rgb_size) if checks.rgb_size else None,
        "spike_size": list(sensor.area.size) if sensor else None,
        "spike_file": {"size": list(sensor.size), "area": asdict(sensor.area)} if sensor else None,
        "frames": checks.frames,
        # Of files and sizes that all frames share there is one fault.
        "faults": list(dict.fromkeys(checks.faults)),
    }


class _Checks:
    """The checks of one sequence's pictures and spike files.

    Attributes:
        faults: what is wrong, collected and not raised.
        frames: what the manifest says of each frame; paths are relative to the data set's root.
        rgb_size: rows and columns of the first readable frame; None where there is none.
        sensor: of the spike files; None where there are no spikes, or none to be used.
    """

    def __init__(self, root: Path, files: SequenceFiles) -> None:
        self.root, self.files = root, files
        self.faults: list[str] = []
        self.frames: list[dict[str, Any]] = []
        self.rgb_size: tuple[int, int] | None = None
        self.sensor: Sensor | None = None
        self._consistency = Consistency()
        self._moved: list[str] = []
        """Faults of exposures that are shifted in space."""
        self._lengths: list[Lengths] = []
        """Of the exposures in which something moves."""

    @contextlib.contextmanager
    def _collect(self) -> Iterator[None]:
        """A DataError in the body becomes a line in ``faults``."""
        try:
            yield
        except DataError as error:
            self.faults.append(str(error))

    def check(self, names: Sequence[str], spike_size: tuple[int, int] | None) -> None:
        """Check frames, in order; those that cannot be used are left out.

        Args:
            names: of the frames that are blurry and sharp.
            spike_size: see :func:`ingest_sequence`.
        """
        for path in (part[name] for name in names for part in (self.files.sharp, self.files.blur)):
            with contextlib.suppress(DataError):
                height, width, _ = read_rgb(self.root / path).shape
                self.rgb_size = height, width
                break
        recordings: dict[str, Recording] = {}
        if self.rgb_size and self.files.has_spikes:
            with self._collect():
                recordings = self._recordings(self.rgb_size, spike_size)
        begin = 0
        for name in names:
            recording = recordings.get(name)
            if recording and self.files.stream:
                begin = recording.exposure.start
            with self._collect():
                self._frame(name, recording, begin)
            begin += recording.exposure.steps if recording else 0
        # Where something moves, the exposure of another frame alone is shifted, too.
        compared = sum(frame["spikes"] is not None for frame in self.frames)
        if 2 * len(self._moved) > compared:
            more = f" ({len(self._moved)} of {compared} exposures)"
            self.faults.append(f"{self._moved[0]}{more}")
        self.faults += self._consistency.finish()
        exposures = [frame["spikes"] for frame in self.frames if frame["spikes"]]
        faults = _time_faults(exposures, has_table=self.files.exposures is not None)
        if exposures and not faults:
            # Where exposures are shifted, longer ones fit better, as they reach the right steps.
            faults = length_faults(str(self.root / exposures[0]["path"]), self._lengths)
        self.faults += faults

    def _recordings(
        self, frame: tuple[int, int], given: tuple[int, int] | None
    ) -> dict[str, Recording]:
        """Where the spikes of each frame are, of those whose spikes can be read."""
        files, layout = self.files, LAYOUTS[self.files.layout]
        sensor = sequence_sensor(self.root, files, frame, given)
        frame_scale(frame, sensor.area.size)
        self.sensor = sensor
        # A recording of the whole sequence is divided among all frames, with partners or without.
        frames = sorted(files.blur, key=frame_order)
        paths = dict.fromkeys(frames, files.stream) if files.stream else files.spikes
        wanted = {name: paths[name] for name in frames if name in paths}
        known = {*files.blur, *files.sharp}
        found, faults = find_recordings(
            self.root, wanted, sensor.size, layout, files.exposures, known
        )
        self.faults += faults
        return found

    def _frame(self, name: str, recording: Recording | None, t0: int) -> None:
        """Check one frame, whose exposure begins at step ``t0`` of the sequence.

        Raises:
            DataError: if its spikes cannot be read or compared.
        """
        paths = self.files.blur[name], self.files.sharp[name]
        pictures = []
        for path in paths:
            with self._collect():
                pictures.append(self._picture(path))
        if len(pictures) < len(paths) or (self.files.has_spikes and recording is None):
            return
        blur, sharp = (
            view_picture(str(self.root / path), picture)
            for path, picture in zip(paths, pictures, strict=True)
        )
        entry, seen, fault = None, None, None
        if recording is not None and self.sensor is not None:
            start, steps = recording.exposure.start, recording.exposure.steps
            file = self.root / recording.path
            # Long exposures of large sensors take gigabytes once unpacked.
            spikes = self.sensor.read(file, start, steps)
            place = (
                f"{file} (steps {start} to {start + steps - 1})" if self.files.stream else f"{file}"
            )
            blur_grey = gray(pictures[0])
            found = align(spikes, gray(pictures[1]))
            seen = view_spikes(place, spikes, blur_grey)
            fault = mismatch(found, place, paths[1], spikes.shape[1:])
            if fault and found.is_moved:
                self._moved.append(fault)
                fault = None
            fault = fault or order_fault(spikes, place)
            entry = _spikes_entry(recording, t0, found, seen.total)
            if found.locates:
                sides = self._sides(recording, self.sensor)
                self._lengths.append(compare_lengths(spikes, blur_grey, sides))
        # The picture's digest tells the frame in another sequence, unless it is of one colour.
        picture = sharp.digest if sharp.detail > 0 else ""
        self.frames.append(
            {
                "name": name,
                "blur": paths[0],
                "sharp": paths[1],
                "spikes": entry,
                "picture": picture,
                "thumbnail": sharp.thumbnail.tobytes().hex(),
            }
        )
        if fault:
            self.faults.append(fault)
        else:
            self._consistency.add(FrameView(blur, sharp, seen))

    def _sides(self, recording: Recording, sensor: Sensor) -> list[PackedSpikes]:
        """Spikes just before and after an exposure; none where too few are recorded."""
        file, exposure = self.root / recording.path, recording.exposure
        steps = widening(exposure.start, exposure.steps, recording.total)
        if not steps:
            return []
        starts = exposure.start - steps, exposure.stop
        return [sensor.read(file, start, steps) for start in starts]

    def _picture(self, path: str) -> NDArray[np.uint8]:
        """A picture, RGB.

        Raises:
            DataError: if it cannot be read, or is not of the size of the sequence's first one.
        """
        picture = read_rgb(self.root / path)
        height, width, _ = picture.shape
        if self.rgb_size != (height, width):
            raise DataError(
                f"{self.root / path}: {height} x {width} pixels, but the first frame has "
                f"{self.rgb_size}"
            )
        return picture


def _spikes_entry(recording: Recording, t0: int, found: Alignment, count: int) -> dict[str, Any]:
    """What the manifest says of the spikes of a frame, as many as ``count``."""
    exposure = recording.exposure
    return {
        "path": recording.path,
        "total": recording.total,
        "start": exposure.start,
        "steps": exposure.steps,
        "sharp": exposure.sharp - exposure.start,
        # In the whole sequence, where the exposures of files of their own follow each other.
        "t0": t0,
        "t1": t0 + exposure.steps,
        "count": count,
        # Null where nothing can be said.
        "center": round(found.center, 2) if found.locates else None,
        "correlation": round(found.correlation, 4) if found.assessable else None,
    }


def _offset_tolerance(offsets: Sequence[float], correlation: float, steps: int) -> float:
    """Steps by which the median of offsets may be off: narrower the better they agree.

    Args:
        offsets: of the located exposures.
        correlation: their median.
        steps: of an exposure.
    """
    tolerance = center_tolerance(steps)
    if len(offsets) < MIN_CENTERS:
        return tolerance
    center = median(offsets)
    deviation = median(abs(offset - center) for offset in offsets)
    uncertainty = 2 * STANDARD_ERROR * deviation / len(offsets) ** 0.5
    if correlation < CLEAR:
        return float(tolerance + uncertainty)
    return float(min(tolerance, CENTER_PRECISION + uncertainty))


def _time_faults(exposures: Sequence[dict[str, Any]], *, has_table: bool) -> list[str]:
    """A sequence whose sharp frames lie elsewhere than expected, and files cut or too long.

    A file may have another T than the others of its sequence if its sharp frame lies where that T
    says.

    Args:
        exposures: of the sequence's usable frames; none in a sequence without spikes.
        has_table: whether a table gives the exposures, which may then have any lengths.
    """
    located = [each for each in exposures if each["center"] is not None]
    if not located:
        return []
    offsets = [each["center"] - each["sharp"] for each in located]
    lengths = Counter((each["steps"], each["sharp"]) for each in exposures)
    (steps, expected), _ = lengths.most_common(1)[0]
    offset = median(offsets)
    faults = [
        f"{each['path']} holds {each['steps']} spike frames, others {steps}, and its sharp frame "
        f"lies at step {each['center']:.1f}, expected {each['sharp'] + offset:.1f}: the file is "
        "cut or too long; put the whole recording of this exposure there"
        for each in exposures
        # Nearer to where a cut at either end would leave it, half the missing steps away.
        if not has_table
        and each["center"] is not None
        and each["steps"] != steps
        and abs(each["center"] - each["sharp"] - offset)
        > min(CENTER_PRECISION, abs(steps - each["steps"]) / 4)
    ]
    correlation = median(each["correlation"] for each in located)
    tolerance = _offset_tolerance(offsets, correlation, steps)
    if abs(offset) > tolerance:
        faults.append(
            f"the sharp frames lie at step {expected + offset:.1f} of {steps}, expected "
            f"{expected:.1f} +- {tolerance:.0f} (median of {len(offsets)} frames): frames and "
            "spike files are shifted against each other, or the files are cut; put the whole "
            "recordings there, or give the sharp instants in exposures.csv"
        )
    return faults
