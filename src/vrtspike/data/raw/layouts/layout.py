"""Layouts of data sets: the places of files, the numbering of frames, and their timing.

A layout is a record of patterns; paths are relative to the root of the data set, POSIX style. In a
pattern, ``{split}`` and ``{sequence}`` are replaced by their names, and ``{gamma}`` by ``_gamma``
if DATA.BLUR_DIR is ``blur_gamma``, else by nothing.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vrtspike.data.data_source import RawFolder
from vrtspike.data.exposure import EXPOSURE_COLUMNS, EXPOSURE_TABLE, Exposure
from vrtspike.data.raw.layouts.files import (
    SENSOR_FILE,
    SPIKE_SUFFIXES,
    SensorArea,
    SequenceFiles,
    gives_size,
)
from vrtspike.data.raw.layouts.folders import (
    FOREIGN,
    list_frames,
    listing_errors,
    may_be_folder,
    visible_entries,
)
from vrtspike.data.raw.numbering import Numbers, frame_numbers
from vrtspike.io.picture_files import DATASET_SUFFIXES
from vrtspike.system.errors import DataError

NESTED = "__"
"""Joins the names of the two folders, one in the other, that are one sequence."""


class SequencePaths(NamedTuple):
    """Prefixes of the paths of a sequence's files: ``train/walk/blur/``, ``train/input/walk-``.

    Attributes:
        blur: path of the blurry frames, before the number.
        sharp: path of the sharp frames; empty in a set without truth.
        spike: path of the spikes of each frame; empty if one file holds all of the sequence.
        streams: paths of a spike file for the whole sequence, before its suffix.
    """

    blur: str
    sharp: str
    spike: str
    streams: list[str]

    @property
    def spike_patterns(self) -> str:
        """Places where spikes may be, as text for messages."""
        patterns = []
        if self.spike:
            patterns.append(f"{self.spike}*.dat")
        if self.streams:
            patterns.append(f"{self.streams[0]}.dat")
        return " or ".join(patterns)


@dataclass(frozen=True)
class Layout:
    """Names of the folders and files of a data set.

    A subclass gives the exposures of frames (:meth:`find_exposure`), and numbers of frames that are
    written in another way (:meth:`numbers`).

    Attributes:
        name: name in DATA.LAYOUT and manifests.
        required_folders: folders by which it is recognised, as patterns in which ``*`` is any name;
            all of one of the groups have to exist.
        foreign_folders: required folders of another layout that looks alike; empty without one.
        blur: folder of a sequence's blurry frames.
        sharp: folder of its sharp frames; None in a set without truth.
        spike: folder of its spike files; None if one file holds all spikes of the sequence.
        streams: possible places of a spike file for the whole sequence, without its suffix;
            messages name the first one.
        prefix: start of file names, before the number; then a folder holds all sequences.
        is_nested: true if a sequence is two folders deep; see :data:`NESTED`.
        has_unpaired_sharp: true if there are sharp frames without a blurry one.
        step: difference of the numbers of neighbouring frames; None is the one that most have.
        ratio: default of frame pixels for each spike pixel along each side.
        sensor: rows and columns in the spike files; None if it is not always the same.
        area: the part of the sensor that is picture; None is all of it.
    """

    name: str
    required_folders: tuple[tuple[str, ...], ...]
    blur: str
    sharp: str | None
    spike: str | None
    foreign_folders: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    prefix: str = ""
    is_nested: bool = False
    has_unpaired_sharp: bool = False
    step: int | None = 1
    ratio: int = 2
    sensor: tuple[int, int] | None = None
    area: SensorArea | None = None

    @listing_errors()
    def recognizes(self, root: Path, split: str) -> bool:
        """Return whether the folders of a split look like this layout.

        Raises:
            DataError: if a folder cannot be looked at.
        """
        if not any(_have_matches(root, split, folders) for folders in self.required_folders):
            return False
        return not (self.foreign_folders and _have_matches(root, split, self.foreign_folders))

    def numbers(self, names: Sequence[str]) -> Numbers | None:
        """Return the numbers in the names of frames; None if there are none."""
        return frame_numbers(names)

    def find_exposure(self, steps: int, file: str | Path) -> Exposure | None:
        """Return the exposure of a frame; None if only a table gives it.

        Args:
            steps: number of its spike steps.
            file: path of the file that holds them, for messages.

        Raises:
            DataError: if the number of steps is impossible.
        """
        return None

    def exposure_of(self, steps: int, file: str | Path) -> Exposure:
        """Return the exposure of a frame, as :meth:`find_exposure`.

        Raises:
            DataError: if the layout does not define it, or the number of steps is impossible.
        """
        exposure = self.find_exposure(steps, file)
        if exposure is None:
            raise DataError(
                f"{file}: nothing says when the shutter was open (the layout {self.name} does not);"
                f" put a table {EXPOSURE_TABLE} with the columns {', '.join(EXPOSURE_COLUMNS)} "
                "beside the frames or the spikes"
            )
        return exposure

    def sequence_paths(
        self, split: str, name: str, blur_dir: str, spike_root: str | None = None
    ) -> SequencePaths:
        """Return expected places of the parts of a sequence.

        Args:
            split: name of the split.
            name: name of the sequence.
            blur_dir: kind of the blurry frames, ``blur`` or ``blur_gamma``.
            spike_root: folder of the spikes under a root of their own.

        >>> layout = Layout("a", (), "{sequence}/blur", "sharp", None)
        >>> layout.sequence_paths("train", "walk", "blur").blur
        'walk/blur/'
        """
        values = {
            "split": split,
            "sequence": self._path(name),
            "gamma": blur_dir.removeprefix("blur"),
        }
        prefix = self.prefix.format(**values)

        def beginning(pattern: str | None) -> str:
            return f"{pattern.format(**values)}/{prefix}" if pattern else ""

        root = _root_prefix(spike_root)
        spike = beginning(self.spike)
        return SequencePaths(
            blur=beginning(self.blur),
            sharp=beginning(self.sharp),
            spike=root + spike if spike else "",
            streams=[root + pattern.format(**values) for pattern in self.streams],
        )

    @listing_errors()
    def sequence_names(
        self, root: Path, split: str, spike_root: str | None
    ) -> tuple[list[str], set[str]]:
        """Return names of the sequences of a split, without hidden folders and stray files.

        A sequence of which only some parts exist is listed, too: the missing parts are faults.

        Args:
            root: the data set's folder.
            split: name of the split.
            spike_root: folder of the spikes under a root of their own.

        Returns:
            the names, and the paths of foreign folders among those of the sequences.

        Raises:
            DataError: if a folder cannot be listed.
        """
        spike = _root_prefix(spike_root) + self.spike if self.spike else None
        folders = set()
        for pattern, gamma in product((self.blur, self.sharp, spike), ("", "_gamma")):
            if pattern is not None:
                above_sequence = pattern.split("{sequence}")[0]
                folders.add(root / above_sequence.format(split=split, gamma=gamma))
        names: set[str] = set()
        foreign: set[str] = set()
        for folder in folders:
            if folder.is_dir():
                names.update(self._names_in(folder, foreign))
        return sorted(names), foreign

    def _names_in(self, folder: Path, foreign: set[str]) -> list[str]:
        """Return names of the sequences in a folder, some of them several times.

        Args:
            folder: folder that contains sequences.
            foreign: gets the paths of foreign folders.
        """
        entries = visible_entries(folder, foreign)
        if self.prefix:
            files = [entry.name for entry in entries if "-" in entry.name]
            pictures = [name for name in files if name.lower().endswith(DATASET_SUFFIXES)]
            return [name.rpartition("-")[0] for name in pictures]
        folders = [entry for entry in entries if may_be_folder(entry)]
        if not self.is_nested:
            return [entry.name for entry in folders]
        names = []
        for outer in folders:
            inner = visible_entries(outer.path, foreign)
            inner_folders = [entry for entry in inner if may_be_folder(entry)]
            names += [f"{outer.name}{NESTED}{entry.name}" for entry in inner_folders]
        return names

    @listing_errors()
    def find(self, folder: RawFolder, split: str, name: str) -> SequenceFiles:
        """List the files of one sequence.

        Args:
            folder: folder of the raw files.
            split: name of the split.
            name: name of the sequence.

        Raises:
            DataError: if a folder cannot be listed.
        """
        root = Path(folder.root)
        blur_dir = folder.blur_dir
        prefixes = self.sequence_paths(split, name, blur_dir, folder.spike_root)
        faults: list[str] = []
        if blur_dir != "blur" and "{gamma}" not in self.blur:
            faults.append(
                f"the layout {self.name} has one kind of blurry frames, found DATA.BLUR_DIR "
                f"{blur_dir}; set it to blur"
            )
        blur = list_frames(root, prefixes.blur, DATASET_SUFFIXES)
        sharp = list_frames(root, prefixes.sharp, DATASET_SUFFIXES, blur.files)
        frame_names = [*blur.files, *sharp.files]
        spikes = list_frames(root, prefixes.spike, SPIKE_SUFFIXES, frame_names)
        streams = [f"{stream}{suffix}" for stream in prefixes.streams for suffix in SPIKE_SUFFIXES]
        stream_files = _existing_files(root, streams)
        tables = [f"{place}{EXPOSURE_TABLE}" for place in self._table_folders(name, prefixes)]
        table_files = _existing_files(root, tables)
        faults += [*blur.faults, *sharp.faults, *spikes.faults]
        for kind, paths in (("spike files", stream_files), ("tables of exposures", table_files)):
            if len(paths) > 1:
                faults.append(f"several {kind} for the whole sequence: {', '.join(paths)}")
        sharp_files = sharp.files
        if self.has_unpaired_sharp:
            paired = sharp.files.keys() & blur.files.keys()
            sharp_files = {frame: path for frame, path in sharp.files.items() if frame in paired}
        # The file of the whole sequence may lie among those of the frames.
        spikes.files.pop("spike", None)
        return SequenceFiles(
            split=split,
            name=name,
            layout=self.name,
            blur_dir=blur_dir,
            blur=blur.files,
            sharp=sharp_files,
            spikes=spikes.files,
            stream=next(iter(stream_files), None),
            sensor_file=_sensor_file(root, prefixes),
            exposures=next(iter(table_files), None),
            faults=tuple(faults),
        )

    def _table_folders(self, name: str, paths: SequencePaths) -> list[str]:
        """Return possible folders of a table of exposures, as prefixes of its path.

        A table may be in the folders of the parts of a sequence, and in the folders above them
        within the sequence.
        """
        parts = [paths.spike, paths.blur, paths.sharp]
        parts += [f"{stream}/" for stream in paths.streams]
        folders = [part for part in parts if part]
        for part in tuple(folders):
            for parent in PurePosixPath(part).parents:
                if f"/{self._path(name)}/" in f"/{parent}/":
                    folders.append(f"{parent}/")
        return list(dict.fromkeys(folders))

    def _path(self, name: str) -> str:
        """Return the folder of a sequence; two folders, one in the other, if it is nested."""
        return name.replace(NESTED, "/") if self.is_nested else name


@dataclass(frozen=True, kw_only=True)
class FixedExposureLayout(Layout):
    """A layout with spike files of one length, whose sharp frame is in the middle.

    Attributes:
        margin: steps before and after the exposure.
        exposure_steps: steps of the exposure.
    """

    margin: int
    exposure_steps: int

    def find_exposure(self, steps: int, file: str | Path) -> Exposure:
        """Return the exposure, the same for all frames."""
        expected = self.exposure_steps + 2 * self.margin
        if steps != expected:
            raise DataError(
                f"{file}: found {steps} steps, expected {expected}, of which the shutter "
                f"was open in {self.exposure_steps}"
            )
        sharp = self.margin + self.exposure_steps // 2
        return Exposure(self.margin, self.margin + self.exposure_steps, sharp)


def layout_hint(layout: Layout, blur_dir: str) -> str:
    """Return the hint for a rejected data set: the files that a layout expects."""
    paths = layout.sequence_paths("<split>", "<sequence>", blur_dir)
    return (
        f"Expected in the layout {layout.name}: {paths.blur}*.png, "
        f"{paths.sharp}*.png and, where there are spikes, {paths.spike_patterns}."
    )


def _have_matches(root: Path, split: str, folders: Sequence[str]) -> bool:
    """Return whether each of the required folders matches a path that is not foreign."""
    for folder in folders:
        paths = root.glob(folder.format(split=glob.escape(split)))
        if not any(FOREIGN.isdisjoint(path.relative_to(root).parts) for path in paths):
            return False
    return True


def _root_prefix(spike_root: str | None) -> str:
    """Return the start of the paths of spikes under a root of their own; empty without one."""
    if spike_root is None:
        return ""
    return f"{Path(spike_root).absolute().as_posix()}/"


def _sensor_file(root: Path, paths: SequencePaths) -> str | None:
    """Return the nearest ``config.yaml`` in the folder of the spikes or above that gives a size."""
    beginning = paths.blur
    if paths.spike:
        beginning = paths.spike
    elif paths.streams:
        beginning = paths.streams[0]
    folder = PurePosixPath(beginning)
    for parent in (folder, *folder.parents):
        path = f"{parent}/{SENSOR_FILE}"
        if gives_size(root / path):
            return path
    return None


def _existing_files(root: Path, paths: Sequence[str]) -> list[str]:
    """Return the paths of some files that exist, each in one spelling of its suffix."""
    existing = []
    for path in dict.fromkeys(paths):
        name, _, suffix = path.rpartition(".")
        # A case-insensitive file system has both spellings, so one is taken.
        for spelling in (path, f"{name}.{suffix.upper()}"):
            if (root / spelling).is_file():
                existing.append(spelling)
                break
    return existing
