"""The checks of one sequence's pictures and spike files; faults are collected, not raised."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.exposure import read_exposures
from vrtspike.deblurring.data.gate.alignment import align, mismatch, order_fault
from vrtspike.deblurring.data.gate.consistency import (
    Consistency,
    FrameView,
    SpikeView,
    gray,
    view_picture,
    view_spikes,
)
from vrtspike.deblurring.data.raw.layouts.files import Area, SequenceFiles
from vrtspike.deblurring.data.raw.layouts.registry import layout_of
from vrtspike.deblurring.data.raw.numbering import frame_order
from vrtspike.deblurring.data.raw.recordings import Recording, find_recordings, find_sensor
from vrtspike.deblurring.data.raw.spikes import frame_scale, picture_area, read_packed
from vrtspike.errors import DataError
from vrtspike.io.images import read_rgb


@dataclass(frozen=True)
class Spikes:
    """The spikes of one frame, checked."""

    path: str
    """Their file, relative to the data set's root."""
    total: int
    """Steps of the whole file."""
    start: int
    """First step of the file with the shutter open."""
    steps: int
    """T, steps with the shutter open."""
    sharp: float
    """What the sharp frame shows, from ``start``."""
    t0: int
    """First step of the exposure, counted from the beginning of the sequence."""
    t1: int
    """The step after its last one: ``t0 + T``."""
    count: int
    """Spikes of all pixels in the exposure."""
    center: float | None
    """Where the sharp frame was found in the exposure; None where that cannot be said."""
    correlation: float | None


@dataclass(frozen=True)
class Frame:
    """One frame of a sequence; paths are relative to the data set's root."""

    name: str
    blur: str
    sharp: str
    spikes: Spikes | None
    """None in a sequence without spikes."""
    picture: str
    """Digest of the sharp frame's pixels, by which it is known again in another sequence; empty
    where it is of one colour."""


@dataclass
class SequenceChecks:
    """The checks of one sequence's files; what is wrong is collected in ``faults``.

    Attributes:
        root: the data set's folder.
        files: of the sequence.
        faults: of the files.
        rgb_size: rows and columns of the first readable frame; None where there is none.
        file_size: rows and columns in the spike files; more than the picture's in Vidar dumps.
        area: the part of them that is picture; None where there are no spikes, or none to be used.
    """

    root: Path
    files: SequenceFiles
    faults: list[str]
    rgb_size: tuple[int, int] | None = None
    file_size: tuple[int, int] = (0, 0)
    area: Area | None = None
    _consistency: Consistency = field(default_factory=Consistency)
    _moved: list[str] = field(default_factory=list)
    """Faults of exposures that are shifted in space."""

    @contextlib.contextmanager
    def _collect(self) -> Iterator[None]:
        """A DataError in the body becomes a line in ``faults``, once."""
        try:
            yield
        except DataError as error:
            if str(error) not in self.faults:
                self.faults.append(str(error))

    def frames(self, names: Sequence[str], spike_size: tuple[int, int] | None) -> list[Frame]:
        """Check frames, in order; those that cannot be used are left out.

        Args:
            names: of the frames that are blurry and sharp.
            spike_size: see :func:`~vrtspike.deblurring.data.gate.ingest.ingest_sequence`.
        """
        self._find_size(names)
        recordings: dict[str, Recording] = {}
        if self.files.has_spikes and self.rgb_size:
            with self._collect():
                recordings = self._recordings(self.rgb_size, spike_size)
        found, begin = [], 0
        for name in names:
            recording = recordings.get(name)
            if recording and self.files.stream:
                begin = recording.exposure.start
            frame = self._frame(name, recording, begin)
            begin += recording.exposure.steps if recording else 0
            found += [frame] if frame else []
        # Where something moves, the exposure of another frame alone is shifted, too.
        compared = sum(frame.spikes is not None for frame in found)
        if 2 * len(self._moved) > compared:
            more = f" (likewise {len(self._moved)} of {compared} exposures)"
            self.faults.append(f"{self._moved[0]}{more}")
        self.faults += self._consistency.finish()
        return found

    def _find_size(self, names: Sequence[str]) -> None:
        for path in (part[name] for name in names for part in (self.files.sharp, self.files.blur)):
            with contextlib.suppress(DataError):  # reported when this frame's turn comes
                height, width, _ = read_rgb(self.root / path).shape
                self.rgb_size = (height, width)
                return

    def _recordings(
        self, frame: tuple[int, int], given: tuple[int, int] | None
    ) -> dict[str, Recording]:
        """Where the spikes of each frame are, of those whose spikes can be read."""
        files, layout = self.files, layout_of(self.files)
        first = self.root / (files.stream or next(iter(files.spikes.values())))
        beside = self.root / files.sensor_file if files.sensor_file else None
        self.file_size = find_sensor(first, given, beside, layout, frame)
        area = picture_area(self.file_size, frame, layout)
        frame_scale(frame, (area.rows, area.columns))
        self.area = area
        # A recording of the whole sequence is divided among all frames, with partners or without.
        frames = sorted(files.blur, key=frame_order)
        paths = dict.fromkeys(frames, files.stream) if files.stream else files.spikes
        wanted = {name: paths[name] for name in frames if name in paths}
        found, faults = find_recordings(self.root, wanted, self.file_size, layout, files.exposures)
        self.faults += faults
        if files.exposures:
            table = self.root / files.exposures
            if odd := sorted(set(read_exposures(table)) - {*files.blur, *files.sharp}):
                self.faults.append(
                    f"{table}: found {len(odd)} lines without a frame, the first of {odd[0]}; "
                    "remove them, or put the frames back"
                )
        return found

    def _frame(self, name: str, recording: Recording | None, t0: int) -> Frame | None:
        """Check one frame whose exposure begins at step ``t0``; None where it cannot be used."""
        paths = self.files.blur[name], self.files.sharp[name]
        sharp, blur = self._picture(paths[1]), self._picture(paths[0])
        if sharp is None or blur is None or (self.files.has_spikes and recording is None):
            return None
        spikes: Spikes | None = None
        seen: SpikeView | None = None
        if recording:
            with self._collect():
                spikes, seen = self._spikes(recording, t0, paths[1], blur, sharp)
            if spikes is None:
                return None
        view = view_picture(str(self.root / paths[1]), sharp)
        blurry = view_picture(str(self.root / paths[0]), blur)
        self._consistency.add(FrameView(blurry, view, seen, has_fault=bool(spikes and not seen)))
        return Frame(name, *paths, spikes, view.digest if view.detail > 0 else "")

    def _spikes(
        self,
        recording: Recording,
        t0: int,
        frame: str,
        blur: NDArray[np.uint8],
        sharp: NDArray[np.uint8],
    ) -> tuple[Spikes, SpikeView | None]:
        """Check the spikes of a frame against its pictures.

        Returns:
            what was found, and what is to be compared of them: spikes with a fault of their own
            with nothing else.

        Raises:
            DataError: if they cannot be read or compared.
        """
        assert self.area is not None, "else there are no recordings"
        exposure, place = recording.exposure, self.root / recording.path
        start, steps = exposure.start, exposure.steps
        # Long exposures of large sensors take gigabytes once unpacked.
        spikes = read_packed(place, *self.file_size, start=start, count=steps, area=self.area)
        found = align(spikes, sharp)
        part = f" (steps {start} to {start + steps - 1})" if self.files.stream else ""
        seen = view_spikes(f"{place}{part}", spikes, blur)
        checked = Spikes(
            path=recording.path,
            total=recording.total,
            start=start,
            steps=steps,
            sharp=exposure.sharp - start,
            t0=t0,
            t1=t0 + steps,
            count=seen.total,
            center=round(found.center, 2) if found.locates else None,
            correlation=round(found.correlation, 4) if found.assessable else None,
        )
        fault = mismatch(found, place, frame, (self.area.rows, self.area.columns))
        if fault and found.moved:
            self._moved.append(fault)
            fault = None
        if fault := fault or order_fault(spikes, f"{place}{part}"):
            self.faults.append(fault)
        return checked, None if fault else seen

    def _picture(self, path: str) -> NDArray[np.uint8] | None:
        """A readable picture, grey, of the size of the sequence's first one, or None."""
        with self._collect():
            picture = read_rgb(self.root / path)
            if picture.shape[:2] != self.rgb_size:
                raise DataError(
                    f"{self.root / path}: {picture.shape[0]} x {picture.shape[1]} pixels, but the "
                    f"first frame has {self.rgb_size}"
                )
            return gray(picture)
        return None
