"""Where the spikes of each frame are: in which file, and which steps of it.

A table ``exposures.csv`` tells it, else the layout of the files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.deblurring.data.exposure import Exposure, read_exposures
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles, sensor_size
from vrtspike.deblurring.data.raw.layouts.layout import Layout
from vrtspike.deblurring.data.raw.layouts.registry import LAYOUTS, layout_of
from vrtspike.deblurring.data.raw.spikes import count_spike_frames, npz_sensor
from vrtspike.errors import DataError


def file_sensor(
    root: Path, files: SequenceFiles, frame: tuple[int, int], given: tuple[int, int] | None
) -> tuple[int, int]:
    """Rows and columns of the sensor as in the spike files.

    In this order they are given, or said by a ``config.yaml`` beside the spikes, an ``.npz`` file,
    the layout, or the size of the frames.

    Raises:
        DataError: if one of these files cannot be read.
    """
    first, layout = files.stream or next(iter(files.spikes.values())), layout_of(files)
    part = (max(1, frame[0] // layout.scale), max(1, frame[1] // layout.scale))
    beside = sensor_size(root / files.sensor_file) if files.sensor_file else None
    return given or beside or npz_sensor(root / first) or layout.sensor or part


@dataclass(frozen=True)
class Recording:
    """The spikes of one frame."""

    path: str
    """Their file, relative to the data set's root."""
    total: int
    """Steps of the whole file."""
    exposure: Exposure
    """Within the file."""


@dataclass
class SpikeFiles:
    """The spike files of a sequence, and what is known of their timing.

    Attributes:
        root: of the data set.
        size: rows and columns of the sensor as in the files.
        layout: of the files.
        table_path: of a table of exposures, if there is one.

    Raises:
        DataError: if the table cannot be read.
    """

    root: Path
    size: tuple[int, int]
    layout: Layout
    table_path: str | None = None

    def __post_init__(self) -> None:
        """Read the table."""
        table = self.table_path
        self.table = read_exposures(self.root / table) if table else None
        """Exposures by the name of the frame."""

    def recording(self, path: str, name: str) -> Recording:
        """The exposure of a frame in a spike file.

        Raises:
            DataError: if nothing tells it, or the file does not hold it.
        """
        total = self._total(path)
        if self.table is None:
            return Recording(path, total, self._by_layout(path, total))
        table = self.root / str(self.table_path)
        if name not in self.table:
            raise DataError(f"{table}: no line for frame {name}; add it")
        exposure = self.table[name]
        if exposure.stop > total:
            raise DataError(
                f"{table}, frame {name}: found stop {exposure.stop}, expected at most {total}, the "
                f"spike frames of {self.root / path}"
            )
        return Recording(path, total, exposure)

    def divided(self, path: str, names: Sequence[str]) -> dict[str, Recording]:
        """One file for all frames, of which each has an equal part.

        Args:
            path: of the file.
            names: all frames, in order.

        Raises:
            DataError: if it cannot be divided, or nothing tells the exposures.
        """
        if self.table is not None:
            return {name: self.recording(path, name) for name in names}
        total, count = self._total(path), len(names)
        if count == 0 or total % count:
            raise DataError(
                f"{self.root / path}: {total} spike frames cannot be divided evenly among "
                f"{count} blurry frames; frames or spikes are missing, or the sensor size "
                f"{self.size[0]} x {self.size[1]} is wrong"
            )
        steps = total // count
        each = self._by_layout(path, steps)
        return {
            name: Recording(path, total, each.moved(number * steps))
            for number, name in enumerate(names)
        }

    def _total(self, path: str) -> int:
        """Steps of a file; where its size is wrong, layouts that it fits are named."""
        file = self.root / path
        try:
            return count_spike_frames(file, *self.size)
        except DataError as error:
            raise DataError(f"{error}{_fitting_layouts(file)}") from error

    def _by_layout(self, path: str, steps: int) -> Exposure:
        try:
            return self.layout.exposure_of(steps)
        except DataError as error:
            raise DataError(f"{self.root / path}: {error}") from error


def _fitting_layouts(file: Path) -> str:
    """The layouts with a sensor of which a file holds whole spike frames, as advice."""
    bits = 8 * file.stat().st_size if file.is_file() and file.suffix.lower() == ".dat" else 0
    names = [
        layout.name
        for layout in LAYOUTS.values()
        if bits and layout.sensor and bits % math.prod(layout.sensor) == 0
    ]
    known = " or ".join(names)
    return f"; it fits the layout {known} (DATA.LAYOUT, --layout)" if names else ""
