"""The checks of one sequence's pictures and spike files; faults are collected, not raised."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.gate.alignment import (
    Alignment,
    align,
    displacement,
    mismatch,
    require_order,
)
from vrtspike.deblurring.data.gate.consistency import (
    Consistency,
    SpikeView,
    gray,
    view_frame,
    view_spikes,
)
from vrtspike.deblurring.data.raw.layouts.files import Area, SequenceFiles
from vrtspike.deblurring.data.raw.layouts.registry import layout_of
from vrtspike.deblurring.data.raw.numbering import frame_order
from vrtspike.deblurring.data.raw.recordings import Recording, SpikeFiles, file_sensor
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


class SequenceChecks:
    """The checks of one sequence's files; what is wrong is collected in ``faults``."""

    def __init__(
        self,
        root: Path,
        files: SequenceFiles,
        names: Sequence[str],
        spike_size: tuple[int, int] | None,
    ) -> None:
        self.faults: list[str] = []
        self.rgb_size: tuple[int, int] | None = None
        """Rows and columns of the first readable frame; None where there is none."""
        self.file_size = (0, 0)
        """Rows and columns in the spike files; more than the picture's in Vidar dumps."""
        self.area: Area | None = None
        """The part of them that is picture; None where there are no spikes, or none to be used."""
        self._root = root
        self._files = files
        self._first = ""
        self._consistency = Consistency()
        self._compared = 0
        """Exposures that were compared with their frames."""
        self._moved: list[str] = []
        """What is said of those that are shifted in space."""
        self._find_size(names)
        if files.has_spikes:
            self._find_sensor(spike_size)

    @contextlib.contextmanager
    def _collect(self) -> Iterator[None]:
        """A DataError in the body becomes a line in ``faults``; of a stream, once."""
        try:
            yield
        except DataError as error:
            if str(error) not in self.faults:
                self.faults.append(str(error))

    def _find_size(self, names: Sequence[str]) -> None:
        parts = (self._files.sharp, self._files.blur)
        for path in (part[name] for name in names for part in parts):
            with contextlib.suppress(DataError):  # reported when this frame's turn comes
                height, width, _ = read_rgb(self._root / path).shape
                self._first = f"{path} has {height} x {width}"
                self.rgb_size = (height, width)
                return

    def _find_sensor(self, given: tuple[int, int] | None) -> None:
        if self.rgb_size is None:
            return
        with self._collect():
            size = file_sensor(self._root, self._files, self.rgb_size, given)
            area = picture_area(size, self.rgb_size, layout_of(self._files))
            try:
                frame_scale(self.rgb_size, (area.rows, area.columns))
            except DataError as error:
                raise DataError(
                    f"{error}; check DATA.SPIKE_SIZE or the config.yaml beside the spikes"
                ) from error
            self.file_size, self.area = size, area

    def recordings(self, names: Sequence[str]) -> dict[str, Recording]:
        """Where the spikes of each frame are, of those whose spikes can be read."""
        if self.area is None:
            return {}
        found: dict[str, Recording] = {}
        with self._collect():
            table, stream = self._files.exposures, self._files.stream
            files = SpikeFiles(self._root, self.file_size, layout_of(self._files), table)
            if odd := sorted(set(files.table or ()) - {*self._files.blur, *self._files.sharp}):
                self.faults.append(
                    f"{self._root / str(table)}: found {len(odd)} lines without a frame, the first "
                    f"of {odd[0]}; remove them, or put the frames back"
                )
            if stream is not None and table is None:
                every = sorted(self._files.blur, key=frame_order)
                return files.divided(stream, every)
            for name in names:
                path = stream or self._files.spikes.get(name)
                if path is None:
                    continue
                with self._collect():
                    found[name] = files.recording(path, name)
        return found

    def frame(self, name: str, recording: Recording | None, t0: int) -> Frame | None:
        """Check one frame whose exposure begins at step ``t0``; None where it cannot be used."""
        sharp = self._picture(self._files.sharp[name])
        blur = self._picture(self._files.blur[name])
        if sharp is None or blur is None:
            return None
        paths = self._files.blur[name], self._files.sharp[name]
        places = str(self._root / paths[0]), str(self._root / paths[1])
        blur, sharp = gray(blur), gray(sharp)
        view = view_frame(places, blur, sharp)
        spikes: Spikes | None = None
        if self._files.has_spikes:
            if recording is None:
                return None
            spikes, seen = self._spikes(recording, t0, name, blur, sharp)
            view = replace(view, spikes=seen, has_fault=seen is None)
        self._consistency.add(view)
        picture = view.sharp_digest if view.detail[1] > 0 else ""
        return Frame(name, *paths, spikes, picture)

    def finish(self) -> list[str]:
        """All faults, those that show between frames included."""
        # Where something moves, the exposure of another frame alone is shifted, too.
        moved = self._moved if 2 * len(self._moved) > self._compared else []
        more = f" (likewise {len(moved)} of {self._compared} exposures)"
        shifted = [f"{moved[0]}{more}"] if moved else []
        return [*self.faults, *shifted, *self._consistency.finish()]

    def _spikes(
        self,
        recording: Recording,
        t0: int,
        name: str,
        blur: NDArray[np.uint8],
        sharp: NDArray[np.uint8],
    ) -> tuple[Spikes, SpikeView | None]:
        """Check the spikes of a frame against its sharp picture."""
        path, exposure = recording.path, recording.exposure
        start, steps = exposure.start, exposure.steps
        assert self.area is not None, "else there are no recordings"
        sensor = (self.area.rows, self.area.columns)
        found: Alignment | None = None
        view: SpikeView | None = None
        total = 0
        with self._collect():
            # Long exposures of large sensors take gigabytes once unpacked.
            spikes = read_packed(
                self._root / path, *self.file_size, start=start, count=steps, area=self.area
            )
            try:
                found = align(spikes, sharp)
            except DataError as error:
                raise DataError(f"{self._root / path}: {error}") from error
            self._compared += 1
            if fault := displacement(found, self._root / path, self._files.sharp[name]):
                self._moved.append(fault)
            part = f" (steps {start} to {start + steps - 1})" if self._files.stream else ""
            seen = view_spikes(f"{self._root / path}{part}", spikes, blur) if steps >= 3 else None
            total = seen.count if seen else int(spikes.total().sum())
            if fault := mismatch(found, self._root / path, self._files.sharp[name], sensor):
                raise DataError(fault)
            require_order(spikes, f"{self._root / path} (steps from {start})")
            view = seen  # spikes with a fault of their own are compared with nothing else
        checked = Spikes(
            path=path,
            total=recording.total,
            start=start,
            steps=steps,
            sharp=exposure.sharp - start,
            t0=t0,
            t1=t0 + steps,
            count=total,
            center=round(found.center, 2) if found and found.locates else None,
            correlation=round(found.correlation, 4) if found and found.assessable else None,
        )
        return checked, view

    def _picture(self, path: str) -> NDArray[np.uint8] | None:
        """A readable 8-bit RGB picture of the size of the sequence's first, or None."""
        with self._collect():
            picture = read_rgb(self._root / path)
            size = (picture.shape[0], picture.shape[1])
            if size == self.rgb_size:
                return picture
            raise DataError(f"{self._root / path}: {size[0]} x {size[1]} pixels, but {self._first}")
        return None
