"""The raw files of one sequence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vrtspike.system.errors import DataError

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg")
SPIKE_SUFFIXES = (".dat", ".npz")
SENSOR_FILE = "config.yaml"
_FOLDERS_ABOVE = 4

_SENSOR_KEY = re.compile(
    r"^\s*(spike_h|spike_w)\s*:\s*['\"]?([1-9]\d*)['\"]?\s*(?:#.*)?$", re.MULTILINE
)


@dataclass(frozen=True)
class Area:
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
    """What lies in a sequence's folder. Paths are relative to the data set's root, POSIX style;
    those below DATA.SPIKE_ROOT are absolute."""

    split: str
    name: str
    layout: str
    """Name of its layout."""
    blur_dir: str
    """Which blurry frames it holds, ``blur`` or ``blur_gamma``."""
    blur: dict[str, str]
    """Blurry frames by their number, such as ``{"000226": "train/.../blur/000226.png"}``."""
    sharp: dict[str, str]
    spikes: dict[str, str]
    """Spike files by number; empty where one serves all frames."""
    stream: str | None
    """The spike file that serves all frames."""
    sensor_file: str | None
    """A ``config.yaml`` that may give the sensor's size."""
    exposures: str | None = None
    """A table of exposures, which goes before what the layout knows."""
    faults: tuple[str, ...] = ()
    """What names show to be wrong, such as two files for a frame."""

    @property
    def has_spikes(self) -> bool:
        """Whether there is any spike file."""
        return bool(self.spikes or self.stream)

    @property
    def paths(self) -> list[str]:
        """All files the sequence consists of, sorted."""
        single = [path for path in (self.stream, self.sensor_file, self.exposures) if path]
        return sorted([*self.blur.values(), *self.sharp.values(), *self.spikes.values(), *single])


def gives_size(path: Path) -> bool:
    """Whether a ``config.yaml`` is there and names a sensor's size; others hold other things."""
    return path.is_file() and bool(_sizes_named(path.read_text("utf-8-sig", errors="replace")))


def _sizes_named(text: str) -> list[str]:
    return re.findall(r"\bspike_[hw]\b", re.sub("#.*", "", text))


def sensor_file(spikes: Path) -> Path | None:
    """The ``config.yaml`` in the folder of a spike file, or in one above, that gives a size."""
    folders = list(spikes.absolute().parents)[:_FOLDERS_ABOVE]
    return next(filter(gives_size, (folder / SENSOR_FILE for folder in folders)), None)


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
    found = _SENSOR_KEY.findall(text)
    mentioned = _sizes_named(text)
    if not mentioned:
        return None
    sizes = {key: int(value) for key, value in found}
    if len(mentioned) != 2 or len(sizes) != 2:
        raise DataError(
            f"{path}: give spike_h and spike_w once each, as whole numbers on lines of their own, "
            "or neither"
        )
    return sizes["spike_h"], sizes["spike_w"]
