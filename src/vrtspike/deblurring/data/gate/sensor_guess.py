"""The sensor's size that a spike file without a header was most likely written with.

Two things tell it. A pixel of an integrating sensor hardly ever fires twice in a row; read with a
wrong number of pixels a frame, the bits of one pixel come from several, and do so by chance. And
neighbouring rows of a picture look alike; read with a wrong width they are shifted against each
other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.gate.alignment import disorder
from vrtspike.deblurring.data.raw.layouts.files import (
    SENSOR_FILE,
    SPIKE_SUFFIXES,
    Area,
    sensor_size,
)
from vrtspike.deblurring.data.raw.spikes import (
    PackedSpikes,
    count_spike_frames,
    header_columns,
    npz_sensor,
    read_packed,
)
from vrtspike.errors import DataError

CAMERAS = {
    (250, 400): "Vidar, S-REDS",
    (250, 416): "Vidar, dump with head",
    (360, 640): "Spk-GoPro",
    (1000, 1000): "Vidar of 1000 x 1000",
    (1000, 1024): "M1K40",
    (180, 320): "S-SDM's GOPRO",
    (720, 1280): "as large as GoPro's frames",
}
"""Sizes of known cameras and data sets; what fits no other way is offered from these."""

LOOKED_AT = 64
"""Spike frames that a guess reads at most."""
MIN_STEPS = 8
MOST_DISORDER = 0.35
"""Of chance: half of what the gate calls shuffled."""
MIN_LIKENESS = 0.4
"""Correlation of neighbouring rows. Real files: 0.99 with the right width, at most 0.15 with a
wrong one (or 0.97 with half the rows, each twice as long, which the right one still exceeds); fine
noise as a scene: 0.57."""
_SIDES = (24, 2048)
_ASPECT = 2.5
_FOLDERS_ABOVE = 4


@dataclass(frozen=True)
class Sensor:
    """The size of a sensor, and how it is known."""

    height: int
    width: int
    """Columns of a row in the file."""
    area: Area
    """The part that is picture."""
    source: str
    """Where the size is from, in words."""


def find_sensor(path: str | os.PathLike[str]) -> Sensor:
    """The size of the sensor of a spike file: from the file, from beside it, or guessed.

    Raises:
        DataError: if the file cannot be read, or nothing tells its size; sizes of known cameras
            that would fit are named.
    """
    file = Path(path)
    told = told_sensor(file)
    if told is not None:
        return told
    if not file.is_file() or file.suffix.lower() not in SPIKE_SUFFIXES:
        other = f"a file *{file.suffix}" if file.is_file() else "a folder, a pipe or a device"
        raise DataError(
            f"{file}: found {other if file.exists() else 'no such file'}, expected a spike file "
            "(.dat or .npz); if it holds nothing but spikes, give rows and columns by --sensor"
        )
    likeness, height, width = max(_likely(file), default=(0.0, 0, 0))
    if likeness < MIN_LIKENESS:
        size = file.stat().st_size
        fitting = [
            f"{height} {width} ({name})"
            for (height, width), name in CAMERAS.items()
            if size and size * 8 % (height * width) == 0
        ]
        raise DataError(
            f"{file}: the sensor's size cannot be told from {size} bytes; give rows and columns by "
            f"--sensor, or spike_h and spike_w in a {SENSOR_FILE} beside the file; sizes of known "
            f"cameras that fit: {', '.join(fitting) or 'none'}"
        )
    words = f"guessed: rows next to each other correlate by {likeness:.2f}"
    if (height, width) in CAMERAS:
        words += f"; {CAMERAS[height, width]}"
    return sensor_of(height, width, words)


def told_sensor(file: Path) -> Sensor | None:
    """What an ``.npz`` file or a ``config.yaml`` in its folder, or in one above, says.

    Raises:
        DataError: if one of these cannot be read.
    """
    if shape := npz_sensor(file):
        return sensor_of(*shape, "from the file")
    for folder in list(file.absolute().parents)[:_FOLDERS_ABOVE]:
        path = folder / SENSOR_FILE
        if path.is_file() and (size := sensor_size(path)):
            return sensor_of(*size, f"from {path}")
    return None


def sensor_of(height: int, width: int, source: str) -> Sensor:
    """A size as it is in files; the columns of a head are no picture."""
    area = Area(0, 0, height, width - header_columns(height, width))
    return Sensor(height, width, area, source)


def _likely(file: Path) -> list[tuple[float, int, int]]:
    """Likeness of rows, height and width of each size that the order of spikes permits."""
    bits, (low, high) = 8 * file.stat().st_size, _SIDES
    for pixels in range(low**2, min(high**2, bits // MIN_STEPS) + 1, 8):
        if bits % pixels:
            continue
        sizes = [
            (pixels // width, width)
            for width in range(low, min(high, pixels // low) + 1)
            if pixels % width == 0 and 1 / _ASPECT <= width * width / pixels <= _ASPECT
        ]
        # Columns of a known camera may be no picture.
        sizes.sort(key=lambda size: size not in CAMERAS)
        # Two frames taken for one are ordered, too: the smallest that is in order is the right one.
        found = disorder(_first_steps(file, *sizes[0])) if sizes else None
        if found is not None and found <= MOST_DISORDER:
            return [(_likeness(file, *size), *size) for size in sizes]
    return []


def _likeness(file: Path, height: int, width: int) -> float:
    """Correlation of neighbouring rows of the mean of the first spike frames."""
    spikes = _first_steps(file, height, width)
    mean: NDArray[np.float64] = np.mean([spikes[step] for step in range(len(spikes))], axis=0)
    # A pixel that always fires stands out more than any scene.
    mean = np.clip(mean, *np.percentile(mean, (1, 99)))
    mean -= mean.mean()
    variance = float((mean**2).mean())
    return float((mean[1:] * mean[:-1]).mean()) / variance if variance > 0 else 0.0


def _first_steps(file: Path, height: int, width: int) -> PackedSpikes:
    count = min(LOOKED_AT, count_spike_frames(file, height, width))
    area = sensor_of(height, width, "").area
    return read_packed(file, height, width, count=count, area=area)
