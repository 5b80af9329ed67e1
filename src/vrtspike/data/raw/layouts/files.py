"""The raw files of one sequence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vrtspike.data.raw.numbering import frame_order
from vrtspike.system.errors import DataError

SPIKE_SUFFIXES = (".dat", ".npz")
SENSOR_FILE = "config.yaml"
STREAM_FILE = "spike.dat"
"""The spikes of a whole recording, as cameras and the simulation write them."""
_FOLDERS_ABOVE = 4
"""Folders above a spike file that are searched for a sensor file."""

_SENSOR_KEY = re.compile(
    r"^\s*(spike_h|spike_w)\s*:\s*['\"]?([1-9]\d*)['\"]?\s*(?:#.*)?$", re.MULTILINE
)


@dataclass(frozen=True)
class SensorArea:
    """A part of a sensor, in its pixels; the top row is the first."""

    top: int
    left: int
    rows: int
    columns: int

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns


@dataclass(frozen=True)
class SequenceFiles:
    """The files of a sequence.

    Paths are relative to the data set's root, POSIX style; below DATA.SPIKE_ROOT they are absolute.

    Attributes:
        split: its split, such as ``train``.
        name: its name.
        layout: name of its layout.
        blur_dir: kind of its blurry frames, ``blur`` or ``blur_gamma``.
        blur: blurry frames by their number, such as ``{"000226": "train/.../blur/000226.png"}``.
        sharp: sharp frames by their number.
        spikes: spike files by number; empty if one file holds the spikes of all frames.
        stream: the spike file of all frames.
        sensor_file: a ``config.yaml`` that may give the sensor's size.
        exposures: a table of exposures, which overrides those of the layout.
        faults: faults that names show, such as two files for a frame.
    """

    split: str
    name: str
    layout: str
    blur_dir: str
    blur: dict[str, str]
    sharp: dict[str, str]
    spikes: dict[str, str]
    stream: str | None
    sensor_file: str | None
    exposures: str | None = None
    faults: tuple[str, ...] = ()

    @property
    def has_spikes(self) -> bool:
        """True if there is any spike file."""
        return bool(self.spikes or self.stream)

    @property
    def spikes_by_frame(self) -> dict[str, str]:
        """The spike file of each blurry frame that has one, in the order of the frames.

        A recording of the whole sequence is that of all frames, with partners or without.
        """
        frames = sorted(self.blur, key=frame_order)
        if self.stream:
            return dict.fromkeys(frames, self.stream)
        return {name: self.spikes[name] for name in frames if name in self.spikes}

    @property
    def paths(self) -> list[str]:
        """All files of the sequence, sorted."""
        paths = [*self.blur.values(), *self.sharp.values(), *self.spikes.values()]
        for path in (self.stream, self.sensor_file, self.exposures):
            if path:
                paths.append(path)
        return sorted(paths)


def gives_size(path: Path) -> bool:
    """Return whether a ``config.yaml`` exists and names a sensor's size; others hold other keys."""
    return path.is_file() and bool(_size_keys(path.read_text("utf-8-sig", errors="replace")))


def _size_keys(text: str) -> list[str]:
    """Return the keys of a sensor's size that occur in a ``config.yaml``, but for comments."""
    return re.findall(r"\bspike_[hw]\b", re.sub("#.*", "", text))


def sensor_file(spikes: Path) -> Path | None:
    """Return the nearest ``config.yaml`` next to or above a spike file that gives a size."""
    for folder in list(spikes.absolute().parents)[:_FOLDERS_ABOVE]:
        path = folder / SENSOR_FILE
        if gives_size(path):
            return path
    return None


def sensor_size(path: Path) -> tuple[int, int] | None:
    """Sensor size (h, w) that a ``config.yaml`` gives, or None.

    Raises:
        DataError: if the file gives only one of ``spike_h`` and ``spike_w``, one of them twice, or
            in another way than ``spike_h: 250`` on a line of its own.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    keys = _size_keys(text)
    if not keys:
        return None
    sizes = {key: int(value) for key, value in _SENSOR_KEY.findall(text)}
    if len(keys) != 2 or len(sizes) != 2:
        raise DataError(
            f"{path}: give spike_h and spike_w once each, as whole numbers on lines of their own, "
            "or neither"
        )
    return sizes["spike_h"], sizes["spike_w"]
