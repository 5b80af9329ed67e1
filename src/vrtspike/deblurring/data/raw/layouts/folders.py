"""Layouts that patterns of folders describe; all that are known here are of this kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vrtspike.deblurring.data.raw.layouts.files import (
    SENSOR_FILE,
    SPIKE_SUFFIXES,
    STREAM,
    SequenceFiles,
)
from vrtspike.deblurring.data.raw.layouts.layout import Places
from vrtspike.deblurring.data.raw.layouts.listing import is_file, is_folder, listing, may_be_folder
from vrtspike.errors import DataError


@dataclass(frozen=True)
class FolderLayout:
    """A :class:`~vrtspike.deblurring.data.raw.layouts.layout.Layout` made of patterns.

    In a pattern ``{split}`` and ``{sequence}`` stand for their names, and ``{gamma}`` for
    ``_gamma`` where DATA.BLUR_DIR is ``blur_gamma``, else for nothing.

    Attributes:
        name: what DATA.LAYOUT and manifests call it.
        used_by: who publishes data in this layout.
        looks_like: from the root and a split to whether its folders look like this layout.
        blur: folder of a sequence's blurry frames, ``<number>.png``.
        sharp: folder of its sharp frames.
        spike: folder of its spike files, ``<number>.dat`` or ``.npz``.
        streams: where a spike file for the whole sequence may lie, without its suffix; the first
            is the one that messages name.
        prefix: what file names begin with before the number; then a folder holds all sequences.
    """

    name: str
    used_by: str
    looks_like: Callable[[Path, str], bool]
    blur: str
    sharp: str
    spike: str
    streams: tuple[str, ...]
    prefix: str = ""

    def recognises(self, root: Path, split: str) -> bool:
        """Whether the folders of a split look like this layout."""
        return self.looks_like(root, split)

    def places(self, split: str, name: str, blur_dir: str) -> Places:
        """Where the parts of a sequence are expected."""
        blur, sharp, spike = self._folders(split, name, blur_dir)
        prefix = self.prefix.format(sequence=name)
        stream = self.streams[0].format(split=split, sequence=name)
        return Places(
            f"{blur}/{prefix}*.png",
            f"{sharp}/{prefix}*.png",
            f"{spike}/{prefix}*.dat",
            f"{stream}.dat",
        )

    def sequence_names(self, root: Path, split: str) -> list[str]:
        """Sequences of a split, sorted."""
        parts = [self.blur, self.sharp] if self.prefix else [self.blur, self.sharp, self.spike]
        patterns = [pattern.split("{sequence}")[0] for pattern in parts]
        names: set[str] = set()
        for place in {p.format(split=split, gamma=g) for p in patterns for g in ("", "_gamma")}:
            if not is_folder(root / place):
                continue
            with listing(root / place) as entries:
                for entry in entries:
                    if self.prefix and entry.name.endswith(".png") and "-" in entry.name:
                        names.add(entry.name.rpartition("-")[0])
                    elif not self.prefix and may_be_folder(entry):
                        names.add(entry.name)
        return sorted(name for name in names if not name.startswith("."))

    def find(self, root: Path, split: str, name: str, blur_dir: str) -> SequenceFiles:
        """List the files of one sequence."""
        blur, sharp, spike = self._folders(split, name, blur_dir)
        if not self.prefix and not any(
            is_folder(root / folder) for folder in (blur, sharp, spike, f"{split}/{name}")
        ):
            raise DataError(
                f"{root / split / name}: no such sequence folder, or a link that leads nowhere"
            )
        prefix = self.prefix.format(sequence=name)
        faults: list[str] = []
        streams = [
            f"{stream}{suffix}"
            for stream in (s.format(split=split, sequence=name) for s in self.streams)
            for suffix in SPIKE_SUFFIXES
            if is_file(root / f"{stream}{suffix}")
        ]
        if len(streams) > 1:
            faults.append(f"several spike files for the whole sequence: {', '.join(streams)}")
        spikes = _numbered(root, spike, SPIKE_SUFFIXES, prefix, faults)
        spikes.pop("spike", None)
        above = Path(spike)
        beside = (above, *above.parents)
        sensor = next((p for p in beside if is_file(root / p / SENSOR_FILE)), None)
        stream = streams[0] if streams else None
        return SequenceFiles(
            split=split,
            name=name,
            layout=self.name + (STREAM if stream and not spikes else ""),
            blur=_numbered(root, blur, (".png",), prefix, faults),
            sharp=_numbered(root, sharp, (".png",), prefix, faults),
            spikes=spikes,
            stream=stream,
            sensor_file=None if sensor is None else (sensor / SENSOR_FILE).as_posix(),
            faults=tuple(faults),
        )

    def _folders(self, split: str, name: str, blur_dir: str) -> tuple[str, str, str]:
        """Folders of the blurry frames, the sharp frames and the spikes."""
        gamma = blur_dir.removeprefix("blur")
        blur, sharp, spike = (
            pattern.format(split=split, sequence=name, gamma=gamma)
            for pattern in (self.blur, self.sharp, self.spike)
        )
        return blur, sharp, spike


def _numbered(
    root: Path, place: str, suffixes: tuple[str, ...], prefix: str, faults: list[str]
) -> dict[str, str]:
    """Files of a folder by number; others (GoPro has a stray text file or two) do not count."""
    if not is_folder(root / place):
        return {}
    with listing(root / place) as entries:
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
