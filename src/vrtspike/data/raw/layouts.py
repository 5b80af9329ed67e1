"""Find sequences, frames and spike files in a data set's folder.

Known layouts, found by looking at the folders (``DATA.LAYOUT`` names one instead):

``spk_gopro`` (GOPRO_Large, Spk-GoPro)
    ``<root>/<split>/<sequence>/{blur,sharp}/NNNNNN.png`` and ``spike/NNNNNN.dat``.
``kair``
    ``<root>/<split>_GT/<sequence>/NNNNNN.png``, ``<split>_GT_blurred/...``, ``<split>_spike/...``.
``nafnet`` (also Restormer)
    ``<root>/<split>/{input,target,spike}/<sequence>-NNNNNN.{png,dat}``.

Spikes are ``.dat`` or ``.npz`` files with the number of their blurry frame, or one for the whole
sequence. A data set may have none at all (GOPRO_Large as it is published). Folders that hold only
sharp frames (GOPRO_Large_all, X4K1000FPS) go through ``scripts/simulate.py`` first.

Only names, sizes and dates are looked at here. The workflow imports this module while it plans, so
it stays within the standard library.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vrtspike.errors import DataError

SPIKE_SUFFIXES = (".dat", ".npz")
SENSOR_FILE = "config.yaml"

_SENSOR_KEY = re.compile(r"^\s*(spike_h|spike_w)\s*:\s*['\"]?(\d+)['\"]?\s*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """Where the parts of a sequence lie; patterns know split, sequence and gamma."""

    name: str
    blur: str
    sharp: str
    spike: str
    streams: tuple[str, ...]
    """Where a spike file for the whole sequence may lie, without its suffix."""
    prefix: str = ""
    """What file names begin with before the frame's number."""


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout(
            "spk_gopro",
            "{split}/{sequence}/blur{gamma}",
            "{split}/{sequence}/sharp",
            "{split}/{sequence}/spike",
            ("{split}/{sequence}/spike", "{split}/{sequence}/spike/spike"),
        ),
        Layout(
            "kair",
            "{split}_GT_blurred{gamma}/{sequence}",
            "{split}_GT/{sequence}",
            "{split}_spike/{sequence}",
            ("{split}_spike/{sequence}", "{split}_spike/{sequence}/spike"),
        ),
        Layout(
            "nafnet",
            "{split}/input{gamma}",
            "{split}/target",
            "{split}/spike",
            ("{split}/spike/{sequence}",),
            prefix="{sequence}-",
        ),
    )
}
AUTO = "auto"


def frame_order(name: str) -> list[tuple[int, str]]:
    """Key that sorts names by the numbers in them: ``frame_2`` before ``frame_10``."""
    # The name itself comes last, so that 1 and 01 have an order, too.
    parts = [*re.split(r"(\d+)", name), f"/{name}"]
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def is_folder(path: Path) -> bool:
    """Whether a folder exists.

    Raises:
        DataError: if a folder above it may not be entered.
    """
    return _reached(path, Path.is_dir)


def _reached(path: Path, question: Callable[[Path], bool]) -> bool:
    try:
        return question(path)
    except PermissionError as error:
        raise DataError(
            f"{path}: cannot be reached ({error.strerror}); mend the permissions of the folders "
            "above it"
        ) from error


def find_layout(root: Path, split: str, wanted: str = AUTO) -> Layout:
    """The layout of a split: the one asked for, else the one that its folders look like."""
    if wanted != AUTO:
        return LAYOUTS[wanted]
    if is_folder(root / f"{split}_GT"):
        return LAYOUTS["kair"]
    inputs = (root / split / name for name in ("input", "input_gamma"))
    if is_folder(root / split / "target") and any(is_folder(folder) for folder in inputs):
        return LAYOUTS["nafnet"]
    return LAYOUTS["spk_gopro"]


@dataclass(frozen=True)
class SequenceFiles:
    """What lies in a sequence's folder. Paths are relative to the data set's root, POSIX style."""

    split: str
    name: str
    layout: str
    """Name of its layout; ``_stream`` follows where one spike file serves all frames."""
    blur: dict[str, str]
    """Blurry frames by their number, such as ``{"000226": "train/.../blur/000226.png"}``."""
    sharp: dict[str, str]
    spikes: dict[str, str]
    """Spike files by number; empty in the stream layout."""
    stream: str | None
    """The sequence's only spike file in the stream layout."""
    sensor_file: str | None
    """A ``config.yaml`` that may give the sensor's size."""
    faults: tuple[str, ...] = ()
    """Files that claim the same frame."""

    @property
    def has_spikes(self) -> bool:
        """Whether there is any spike file."""
        return bool(self.spikes or self.stream)

    @property
    def paths(self) -> list[str]:
        """All files the sequence consists of, sorted."""
        single = [path for path in (self.stream, self.sensor_file) if path]
        return sorted([*self.blur.values(), *self.sharp.values(), *self.spikes.values(), *single])


def places(kind: Layout, split: str, name: str, blur_dir: str) -> dict[str, str]:
    """Folders of the blurry frames, sharp frames and spikes, relative to the root."""
    gamma = blur_dir.removeprefix("blur")
    patterns = {"blur": kind.blur, "sharp": kind.sharp, "spike": kind.spike}
    return {k: p.format(split=split, sequence=name, gamma=gamma) for k, p in patterns.items()}


def sequence_names(root: Path, split: str, layout: str = AUTO) -> list[str]:
    """Sequences of a split, sorted; hidden folders and stray files do not count.

    What has only some of its parts is a sequence, too: that the others are missing is a fault.
    """
    kind = find_layout(root, split, layout)
    parts = [kind.blur, kind.sharp] if kind.prefix else [kind.blur, kind.sharp, kind.spike]
    patterns = [pattern.split("{sequence}")[0] for pattern in parts]
    names: set[str] = set()
    for place in {p.format(split=split, gamma=g) for p in patterns for g in ("", "_gamma")}:
        if not is_folder(root / place):
            continue
        with _listing(root / place) as entries:
            for entry in entries:
                if kind.prefix and entry.name.endswith(".png") and "-" in entry.name:
                    names.add(entry.name.rpartition("-")[0])
                elif not kind.prefix and _may_be_folder(entry):
                    names.add(entry.name)
    return sorted(name for name in names if not name.startswith("."))


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link that leads nowhere: nobody means that to be left out."""
    return not os.path.isfile(entry.path) if entry.is_symlink() else entry.is_dir()  # noqa: PTH113


@contextlib.contextmanager
def _listing(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as entries:
            yield entries
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be listed ({error.strerror}); mend its permissions"
        ) from error


def find_sequence(
    root: str | os.PathLike[str], split: str, name: str, blur_dir: str, layout: str = AUTO
) -> SequenceFiles:
    """List the files of one sequence.

    Raises:
        DataError: if none of the sequence's folders exists, or one cannot be listed.
    """
    base = Path(root)
    kind = find_layout(base, split, layout)
    folders = places(kind, split, name, blur_dir)
    if not kind.prefix and not any(
        is_folder(base / p) for p in (*folders.values(), f"{split}/{name}")
    ):
        raise DataError(
            f"{base / split / name}: no such sequence folder, or a link that leads nowhere"
        )
    prefix = kind.prefix.format(sequence=name)
    faults: list[str] = []
    streams = [
        f"{stream}{suffix}"
        for stream in (s.format(split=split, sequence=name) for s in kind.streams)
        for suffix in SPIKE_SUFFIXES
        if _reached(base / f"{stream}{suffix}", Path.is_file)
    ]
    if len(streams) > 1:
        faults.append(f"several spike files for the whole sequence: {', '.join(streams)}")
    spikes = _numbered(base, folders["spike"], SPIKE_SUFFIXES, prefix, faults)
    spikes.pop("spike", None)
    above = Path(folders["spike"])
    beside = (above, *above.parents)
    sensor = next((p for p in beside if _reached(base / p / SENSOR_FILE, Path.is_file)), None)
    stream = streams[0] if streams else None
    return SequenceFiles(
        split=split,
        name=name,
        layout=kind.name + ("_stream" if stream and not spikes else ""),
        blur=_numbered(base, folders["blur"], (".png",), prefix, faults),
        sharp=_numbered(base, folders["sharp"], (".png",), prefix, faults),
        spikes=spikes,
        stream=stream,
        sensor_file=None if sensor is None else (sensor / SENSOR_FILE).as_posix(),
        faults=tuple(faults),
    )


def _numbered(
    root: Path, place: str, suffixes: tuple[str, ...], prefix: str, faults: list[str]
) -> dict[str, str]:
    """Files of a folder by number; others (GoPro has a stray text file or two) do not count."""
    if not is_folder(root / place):
        return {}
    with _listing(root / place) as entries:
        names = sorted(
            e.name
            for e in entries
            if e.name.endswith(suffixes) and e.name.startswith(prefix) and e.name[0] != "."
        )
    found: dict[str, str] = {}
    numbers: dict[str, str] = {}
    for name in names:
        stem = name[len(prefix) :].rpartition(".")[0]
        if prefix and "-" in stem:
            continue  # another sequence, whose name begins like this one's
        number = str(int(stem)) if stem.isdecimal() else stem
        if number in numbers:
            faults.append(f"{place} holds two files for frame {stem}: {numbers[number]} and {name}")
            continue
        numbers[number] = name
        found[stem] = f"{place}/{name}"
    return found


def sensor_size(root: str | os.PathLike[str], files: SequenceFiles) -> tuple[int, int] | None:
    """Sensor size (h, w) that a ``config.yaml`` beside the spikes gives, or None.

    Raises:
        DataError: if the file gives only one of ``spike_h`` and ``spike_w``, one of them twice, or
            in another way than ``spike_h: 250`` on a line of its own.
    """
    if files.sensor_file is None:
        return None
    path = Path(root) / files.sensor_file
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    found = _SENSOR_KEY.findall(text)
    mentioned = re.findall(r"\bspike_[hw]\b", re.sub("#.*", "", text))
    if not mentioned:
        return None
    sizes = {key: int(value) for key, value in found}
    if len(mentioned) != 2 or len(sizes) != 2:
        raise DataError(
            f"{path}: give spike_h and spike_w once each, as whole numbers on lines of their own, "
            "or neither"
        )
    return sizes["spike_h"], sizes["spike_w"]
