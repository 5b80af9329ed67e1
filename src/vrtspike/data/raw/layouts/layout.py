"""What a layout says: where the files of a data set lie, how they are numbered, and their timing.

A layout is a record of patterns; paths are relative to the root of the data set, POSIX style. In a
pattern ``{split}`` and ``{sequence}`` stand for their names, and ``{gamma}`` for ``_gamma`` where
DATA.BLUR_DIR is ``blur_gamma``, else for nothing.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vrtspike.data.exposure import COLUMNS, TABLE, Exposure
from vrtspike.data.raw.layouts.files import (
    PICTURE_SUFFIXES,
    SENSOR_FILE,
    SPIKE_SUFFIXES,
    Area,
    SequenceFiles,
    tells_size,
)
from vrtspike.data.raw.layouts.folders import (
    FOREIGN,
    may_be_folder,
    naming_closed_folders,
    numbered,
)
from vrtspike.data.raw.numbering import Numbers, frame_numbers
from vrtspike.system.errors import DataError

NESTED = "__"
"""Joins the names of the two folders, one in the other, that are one sequence."""


class Places(NamedTuple):
    """How the paths of a sequence's files begin: with ``train/walk/blur/``, ``train/input/walk-``.

    Attributes:
        blur: those of the blurry frames, before the number.
        sharp: those of the sharp frames; empty in a set without truth.
        spike: those of the spikes of each frame; empty where one file serves the sequence.
        streams: those of a spike file for the whole sequence, before its suffix.
    """

    blur: str
    sharp: str
    spike: str
    streams: list[str]

    @property
    def spikes_wanted(self) -> str:
        """Every way to have spikes, in words."""
        each = [f"{self.spike}*.dat"] if self.spike else []
        return " or ".join([*each, *(f"{stream}.dat" for stream in self.streams[:1])])


@dataclass(frozen=True)
class Layout:
    """One way to lay out a data set.

    Attributes:
        name: what DATA.LAYOUT and manifests call it.
        marks: its folders by which it is recognised, as patterns in which ``*`` is any name; all of
            one of the groups have to be there.
        unless: the marks of another layout that looks alike; empty where there is none.
        blur: folder of a sequence's blurry frames.
        sharp: folder of its sharp frames; None in a set without truth.
        spike: folder of its spike files; None where one file serves the sequence.
        streams: where a spike file for the whole sequence may lie, without its suffix; the first
            is the one that messages name.
        prefix: what file names begin with before the number; then a folder holds all sequences.
        is_nested: whether a sequence is two folders deep; see :data:`NESTED`.
        more_sharp: whether there are sharp frames without a blurry one.
        exposure: from the number of steps of a frame's spikes to its exposure; raises DataError
            where there cannot be so many. None where only a table can tell.
        step: from one frame's number to the next; None is the step that most of them have.
        numbers: reads the numbers in the names of frames; None where there are none.
        scale: frame pixels for each spike pixel along each side, where nothing else tells it.
        sensor: rows and columns in the spike files; None where it is not always the same.
        area: the part of the sensor that is picture; None is all of it.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    blur: str
    sharp: str | None
    spike: str | None
    unless: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    prefix: str = ""
    is_nested: bool = False
    more_sharp: bool = False
    exposure: Callable[[int], Exposure] | None = None
    step: int | None = 1
    numbers: Callable[[Sequence[str]], Numbers | None] = frame_numbers
    scale: int = 2
    sensor: tuple[int, int] | None = None
    area: Area | None = None

    @naming_closed_folders()
    def recognises(self, root: Path, split: str) -> bool:
        """Whether the folders of a split look like this layout.

        Raises:
            DataError: if a folder cannot be looked at.
        """

        def are_there(marks: Sequence[str]) -> bool:
            found = (root.glob(mark.format(split=glob.escape(split))) for mark in marks)
            return all(
                any(FOREIGN.isdisjoint(path.relative_to(root).parts) for path in paths)
                for paths in found
            )

        return any(map(are_there, self.marks)) and not (self.unless and are_there(self.unless))

    def exposure_of(self, steps: int, file: str | Path) -> Exposure:
        """The exposure of a frame with so many steps of spikes.

        Args:
            steps: of the frame.
            file: that holds them, for messages.

        Raises:
            DataError: if the layout does not know it, or there cannot be so many.
        """
        if self.exposure is None:
            raise DataError(
                f"{file}: nothing says when the shutter was open (the layout {self.name} does not);"
                f" put a table {TABLE} with the columns {', '.join(COLUMNS)} beside the frames or "
                "the spikes"
            )
        try:
            return self.exposure(steps)
        except DataError as error:
            raise DataError(f"{file}: {error}") from error

    def places(self, split: str, name: str, blur_dir: str, spike_root: str | None = None) -> Places:
        """Where the parts of a sequence are expected; arguments as for :meth:`find`.

        >>> layout = Layout("a", (), "{sequence}/blur", "sharp", None)
        >>> layout.places("train", "walk", "blur").blur
        'walk/blur/'
        """
        gamma = blur_dir.removeprefix("blur")
        parts = {"split": split, "sequence": self._path(name), "gamma": gamma}
        above, prefix = _above(spike_root), self.prefix.format(**parts)
        blur, sharp, spike = (
            f"{pattern.format(**parts)}/{prefix}" if pattern else ""
            for pattern in (self.blur, self.sharp, self.spike)
        )
        streams = [above + each.format(**parts) for each in self.streams]
        return Places(blur, sharp, above + spike if spike else "", streams)

    @naming_closed_folders()
    def sequence_names(
        self, root: Path, split: str, spike_root: str | None, foreign: set[str]
    ) -> list[str]:
        """Sequences of a split, sorted; hidden folders and stray files do not count.

        What has only some of its parts is a sequence, too: that the others are missing is a fault.

        Args:
            root: the data set's folder.
            split: which split.
            spike_root: where folders with spikes lie instead.
            foreign: takes the folders that are passed over (:data:`FOREIGN`).

        Raises:
            DataError: if a folder cannot be listed.
        """
        patterns = (("", self.blur), ("", self.sharp), (_above(spike_root), self.spike))
        places = {
            root / (above + pattern.split("{sequence}")[0].format(split=split, gamma=gamma))
            for above, pattern in patterns
            if pattern
            for gamma in ("", "_gamma")
        }
        names: set[str] = set()
        for place in filter(Path.is_dir, places):
            for entry in _own_entries(place, foreign):
                if self.prefix:
                    if entry.name.lower().endswith(PICTURE_SUFFIXES) and "-" in entry.name:
                        names.add(entry.name.rpartition("-")[0])
                elif may_be_folder(entry) and self.is_nested:
                    inner = filter(may_be_folder, _own_entries(entry.path, foreign))
                    names |= {f"{entry.name}{NESTED}{each.name}" for each in inner}
                elif may_be_folder(entry):
                    names.add(entry.name)
        return sorted(names)

    @naming_closed_folders()
    def find(
        self, root: Path, split: str, name: str, blur_dir: str, spike_root: str | None = None
    ) -> SequenceFiles:
        """List the files of one sequence.

        Args:
            root: the data set's folder.
            split: which split.
            name: of the sequence.
            blur_dir: which blurry frames, ``blur`` or ``blur_gamma``.
            spike_root: where folders with spikes lie instead, below another root.

        Raises:
            DataError: if a folder cannot be listed.
        """
        blur, sharp, spike, streams = self.places(split, name, blur_dir, spike_root)
        faults: list[str] = []
        if blur_dir != "blur" and "{gamma}" not in self.blur:
            faults.append(
                f"the layout {self.name} has one kind of blurry frames, found DATA.BLUR_DIR "
                f"{blur_dir}; set it to blur"
            )
        known: dict[str, str] = {}
        blurry = numbered(root, blur, PICTURE_SUFFIXES, known, faults)
        sharps = numbered(root, sharp, PICTURE_SUFFIXES, known, faults) if sharp else {}
        if self.more_sharp:
            sharps = {number: path for number, path in sharps.items() if number in blurry}
        spikes = numbered(root, spike, SPIKE_SUFFIXES, known, faults) if spike else {}
        spikes.pop("spike", None)
        stream = _only(root, [f"{s}{suffix}" for s in streams for suffix in SPIKE_SUFFIXES], faults)
        own = [part for part in (spike, blur, sharp, *(f"{each}/" for each in streams)) if part]
        above = (f"{PurePosixPath(part).parent}/" for part in own)
        own += (folder for folder in above if f"/{self._path(name)}/" in f"/{folder}")
        spikes_at = PurePosixPath(spike or (streams[0] if streams else blur))
        sensors = (f"{folder}/{SENSOR_FILE}" for folder in (spikes_at, *spikes_at.parents))
        return SequenceFiles(
            split=split,
            name=name,
            layout=self.name,
            blur_dir=blur_dir,
            blur=blurry,
            sharp=sharps,
            spikes=spikes,
            stream=stream,
            sensor_file=next((p for p in sensors if tells_size(root / p)), None),
            exposures=_only(root, [f"{part}{TABLE}" for part in dict.fromkeys(own)], faults),
            faults=tuple(faults),
        )

    def _path(self, name: str) -> str:
        """The folder of a sequence, or two."""
        return name.replace(NESTED, "/") if self.is_nested else name


def advice(layout: Layout, blur_dir: str) -> str:
    """What someone must know whose data set could not be used."""
    places = layout.places("<split>", "<sequence>", blur_dir)
    return (
        f"Expected in the layout {layout.name}: {places.blur}*.png, "
        f"{places.sharp}*.png and, where there are spikes, {places.spikes_wanted}."
    )


def _above(spike_root: str | None) -> str:
    """What stands before the paths of spikes under a root of their own."""
    return "" if spike_root is None else f"{Path(spike_root).absolute().as_posix()}/"


def _own_entries(folder: str | Path, foreign: set[str]) -> Iterator[os.DirEntry[str]]:
    """What lies in a folder and is neither hidden nor foreign; ``foreign`` takes what is."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in FOREIGN:
                foreign.add(entry.path)
            elif not entry.name.startswith("."):
                yield entry


def fixed_exposure(margin: int, steps: int) -> Callable[[int], Exposure]:
    """Exposures in spike files of one length, with margins; the sharp frame is the middle step."""

    def exposure(found: int) -> Exposure:
        if found != steps + 2 * margin:
            raise DataError(
                f"found {found} spike frames, expected {steps + 2 * margin}, of which the shutter "
                f"was open in {steps}"
            )
        return Exposure(margin, margin + steps, margin + steps // 2)

    return exposure


def _only(root: Path, paths: Sequence[str], faults: list[str]) -> str | None:
    """The one of some files that exists; several are a fault."""
    # On a file system that knows no capitals both spellings are there, so one is taken.
    spellings = [(p, f"{p.rpartition('.')[0]}.{p.rpartition('.')[2].upper()}") for p in paths]
    present = (next((p for p in pair if (root / p).is_file()), None) for pair in spellings)
    found = list(dict.fromkeys(path for path in present if path))
    if len(found) > 1:
        kind = "tables of exposures" if found[0].endswith(TABLE) else "spike files"
        faults.append(f"several {kind} for the whole sequence: {', '.join(found)}")
    return found[0] if found else None
