"""The checks of one sequence's pictures and spike files; faults are collected, not raised."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.gate.alignment import Alignment, align, require_match
from vrtspike.deblurring.data.gate.shuffling import require_order
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles, sensor_size
from vrtspike.deblurring.data.raw.numbering import frame_order
from vrtspike.deblurring.data.raw.spikes import (
    PackedSpikes,
    count_spike_frames,
    npz_sensor,
    picture_columns,
    read_rows,
)
from vrtspike.errors import DataError
from vrtspike.images import luma, read_rgb


@dataclass(frozen=True)
class Exposure:
    """The spikes of one frame."""

    path: str
    """Their file, relative to the data set's root."""
    start: int
    """First spike frame of the exposure in its file."""
    steps: int
    """T."""
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
    spikes: Exposure | None
    """None in a sequence without spikes."""


class SequenceChecks:
    """The checks of one sequence's files; what is wrong is collected in ``faults``."""

    def __init__(
        self, root: Path, files: SequenceFiles, spike_size: tuple[int, int] | None
    ) -> None:
        self.faults: list[str] = []
        self.sensor: tuple[int, int] | None = None
        """Rows and columns of the picture that the sensor gives, as far as is known yet."""
        self.columns = 0
        """Columns of a row in the spike files; more than the picture's in Vidar dumps."""
        self.rgb_size: tuple[int, int] | None = None
        self._root = root
        self._files = files
        self._first: str | None = None
        if not files.has_spikes:
            return
        with self._collect():
            self._set_sensor(spike_size or sensor_size(root, files) or self._npz_size())

    @contextlib.contextmanager
    def _collect(self) -> Iterator[None]:
        """A DataError in the body becomes a line in ``faults``."""
        try:
            yield
        except DataError as error:
            self.faults.append(str(error))

    def _set_sensor(self, size: tuple[int, int] | None) -> None:
        if size is not None:
            if min(size) < 1:
                raise DataError(f"sensor size {size[0]} x {size[1]}: both must be positive")
            self.columns = size[1]
            self.sensor = size

    def _npz_size(self) -> tuple[int, int] | None:
        """The sensor's size as the first spike file gives it, if it is of a kind that does."""
        paths = [self._files.stream] if self._files.stream else list(self._files.spikes.values())
        return npz_sensor(self._root / paths[0]) if paths else None

    def exposures(self, names: Sequence[str]) -> dict[str, tuple[str, int, int]]:
        """Spike file, first step and number of steps of each frame whose spikes can be read."""
        if names and self.sensor is None and self._files.has_spikes:
            self._sensor_from(names)
        if self.sensor is None:
            return {}
        height, width = self.sensor[0], self.columns
        found: dict[str, tuple[str, int, int]] = {}
        if self._files.stream is None:
            for name in names:
                path = self._files.spikes.get(name)
                if path is None:
                    continue
                with self._collect():
                    found[name] = (path, 0, count_spike_frames(self._root / path, height, width))
            return found
        path = self._files.stream
        with self._collect():
            total = count_spike_frames(self._root / path, height, width)
            count = len(self._files.blur)
            if count == 0 or total % count:
                raise DataError(
                    f"{self._root / path}: {total} spike frames cannot be divided evenly among "
                    f"{count} blurry frames; frames or spikes are missing, or the sensor size "
                    f"{height} x {width} is wrong"
                )
            steps = total // count
            order = {name: i for i, name in enumerate(sorted(self._files.blur, key=frame_order))}
            found = {name: (path, order[name] * steps, steps) for name in names}
        return found

    def _sensor_from(self, names: Sequence[str]) -> None:
        """Without other knowledge the sensor has half the size of the first readable frame."""
        for name in names:
            try:
                height, width = read_rgb(self._root / self._files.sharp[name]).shape[:2]
            except DataError:
                continue  # reported when this frame's turn comes
            self._set_sensor((height // 2, width // 2))
            return

    def frame(
        self, name: str, exposure: tuple[str, int, int] | None, t0: int
    ) -> tuple[Frame | None, Alignment | None]:
        """Check one frame whose exposure begins at step ``t0``; None where it cannot be used."""
        sharp = self._picture(self._files.sharp[name])
        blur = self._picture(self._files.blur[name])
        if sharp is None or blur is None:
            return None, None
        spikes: Exposure | None = None
        found: Alignment | None = None
        if self._files.has_spikes:
            if exposure is None or self.sensor is None:
                return None, None
            spikes, found = self._exposure(self.sensor, exposure, t0, name, sharp)
        return Frame(name, self._files.blur[name], self._files.sharp[name], spikes), found

    def _exposure(
        self,
        sensor: tuple[int, int],
        exposure: tuple[str, int, int],
        t0: int,
        name: str,
        sharp: NDArray[np.uint8],
    ) -> tuple[Exposure, Alignment | None]:
        """Check the spikes of a frame against its sharp picture."""
        path, start, steps = exposure
        found: Alignment | None = None
        total = 0
        with self._collect():
            # Long exposures of large sensors take gigabytes once unpacked.
            rows = read_rows(
                self._root / path,
                sensor[0],
                self.columns,
                start=start,
                count=steps,
                columns=sensor[1],
            )
            spikes = PackedSpikes(rows, sensor[1])
            total = spikes.count()
            try:
                found = align(spikes, luma(sharp))
            except DataError as error:
                raise DataError(f"{self._root / path}: {error}") from error
            require_match(found, self._root / path, self._files.sharp[name], sensor)
            require_order(spikes, f"{self._root / path} (steps from {start})")
        checked = Exposure(
            path=path,
            start=start,
            steps=steps,
            t0=t0,
            t1=t0 + steps,
            count=total,
            center=round(found.center, 2) if found and found.locates else None,
            correlation=round(found.correlation, 4) if found and found.assessable else None,
        )
        return checked, found

    def _picture(self, path: str) -> NDArray[np.uint8] | None:
        """A readable 8-bit RGB picture of the size of the sequence's first, or None."""
        picture: NDArray[np.uint8] | None = None
        with self._collect():
            picture = read_rgb(self._root / path)
            height, width = picture.shape[:2]
            if self.rgb_size is None:
                self._first = path
                self.rgb_size = (height, width)
                self._check_ratio(height, width)
            if (height, width) != self.rgb_size:
                size = f"{self.rgb_size[0]} x {self.rgb_size[1]}"
                picture = None
                raise DataError(
                    f"{self._root / path}: {height} x {width} pixels, but {self._first} has {size}"
                )
        return picture

    def _check_ratio(self, height: int, width: int) -> None:
        if self.sensor is None:
            return
        rows = self.sensor[0]
        columns = picture_columns((rows, self.columns), (height, width))
        self.sensor = rows, columns
        if height % rows or width % columns or height // rows != width // columns:
            self.faults.append(
                f"sensor size {rows} x {columns} does not fit frames of {height} x {width}: their "
                "sides must be the sensor's times the same whole number; check DATA.SPIKE_SIZE "
                "or the config.yaml beside the spikes"
            )
            # Nothing more can be said about the spikes.
            self.sensor = None
