"""Completeness of a folder of raw files: its layouts, splits and missing parts.

Like :mod:`vrtspike.data.raw.survey` it looks at names only. The survey decides on the use of a data
set; these functions compare it with its published description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.folders import MAX_LINES
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.registry import LAYOUTS, frame_faults
from vrtspike.data.raw.nearby import other_splits
from vrtspike.system.errors import DataError, first_few

WHOLE = "all"
"""Name of the only split of a layout without splits."""
_SPLIT = "{split}"
_REMEDIES = {
    "blurry frames": "unpack or download them",
    "sharp frames": "unpack or download them, or restore only (vrtspike restore)",
    "spikes": "download them, name their own root (--spike-root), or simulate them "
    "(scripts/simulate.py)",
}


@dataclass(frozen=True)
class FolderContents:
    """Sequences of a folder in one layout.

    Attributes:
        root: folder that contains the splits.
        layout: the layout that recognised it.
        splits: sequences by split, sorted by name.
        spike_root: folder of the spikes under a root of their own.
    """

    root: Path
    layout: Layout
    splits: Mapping[str, Sequence[SequenceFiles]]
    spike_root: str | None = None

    @property
    def has_spikes(self) -> bool:
        """True if a sequence has spikes, or they were expected under a root of their own."""
        has_files = any(files.has_spikes for split in self.splits.values() for files in split)
        return has_files or self.spike_root is not None


@dataclass(frozen=True)
class Expected:
    """Published contents of a data set.

    Attributes:
        sequences: number of sequences by split; empty if not published.
        frames: number of blurry frames by split; empty if not published.
        has_spikes: whether every frame has spikes.
    """

    sequences: Mapping[str, int] = field(default_factory=dict)
    frames: Mapping[str, int] = field(default_factory=dict)
    has_spikes: bool = False


def read_contents(root: Path, spike_root: str | None = None) -> list[FolderContents]:
    """List the sequences below a folder, for each layout that recognises it.

    Args:
        root: folder of a data set.
        spike_root: folder of its spikes under a root of their own (DATA.SPIKE_ROOT).

    Returns:
        the contents by layout; empty if no layout recognises the folder.

    Raises:
        DataError: if the folder does not exist or cannot be listed.
    """
    for place in (root, spike_root):
        if place is not None and not Path(place).is_dir():
            raise DataError(
                f"{place}: found no folder, expected that of a data set; unpack archives first"
            )
    folder = RawFolder(root, spike_root=spike_root)
    contents = []
    for layout in LAYOUTS.values():
        splits = {}
        for split in _recognized_splits(root, layout):
            names, _ = layout.sequence_names(root, split, spike_root)
            files = [layout.find(folder, split, name) for name in names]
            splits[split or WHOLE] = files
        if splits:
            contents.append(FolderContents(root, layout, splits, spike_root))
    return contents


def missing_parts(contents: FolderContents, expected: Expected) -> list[str]:
    """Compare the contents of a folder with the published ones.

    Returns:
        a sentence for each difference: place, what was found, what was expected, what to do.
    """
    faults = []
    for split in dict.fromkeys([*expected.sequences, *contents.splits]):
        sequences = contents.splits.get(split, [])
        faults += _count_faults(contents, split, sequences, expected)
        faults += _absent_parts(contents, split, sequences, expected.has_spikes)
        faults += _sequence_faults(contents, split, sequences)
    return faults


def _recognized_splits(root: Path, layout: Layout) -> list[str]:
    """Splits below a root whose folders look like a layout; an empty name if it has no splits."""
    if _SPLIT not in layout.blur:
        return [""] if layout.recognizes(root, "") else []
    return other_splits(root, [], layout.name)


def _pattern(contents: FolderContents, split: str, part: str) -> str:
    """Pattern of the paths of a part of the sequences of a split."""
    paths = contents.layout.sequence_paths(split, "<sequence>", "blur", contents.spike_root)
    if part == "sharp frames":
        return f"{contents.root}/{paths.sharp}*.png"
    if part == "blurry frames":
        return f"{contents.root}/{paths.blur}*.png"
    if contents.spike_root is not None:
        return paths.spike_patterns
    return f"{contents.root}/{paths.spike_patterns}"


def _count_faults(
    contents: FolderContents, split: str, sequences: Sequence[SequenceFiles], expected: Expected
) -> list[str]:
    """Differences of the numbers of sequences and frames of a split."""
    pattern = _pattern(contents, split, "blurry frames")
    if split not in expected.sequences:
        if not expected.sequences or split == WHOLE:
            return []
        names = " and ".join(expected.sequences)
        return [f"{split}: found this split, expected {names}; rename or remove it"]
    number = expected.sequences[split]
    if len(sequences) != number:
        difference = f"found {len(sequences)} sequences, expected {number}"
        return [
            f"{split}: {difference}: {pattern}; unpack or download the others, remove foreign ones"
        ]
    frames = sum(len(files.blur) for files in sequences)
    wanted = expected.frames.get(split, frames)
    if frames != wanted:
        difference = f"found {frames} blurry frames, expected {wanted}"
        return [f"{split}: {difference}: {pattern}; unpack the archive again"]
    return []


def _absent_parts(
    contents: FolderContents, split: str, sequences: Sequence[SequenceFiles], has_spikes: bool
) -> list[str]:
    """Sequences of a split without blurry frames, sharp frames or spikes."""
    names_by_part = {"blurry frames": [files.name for files in sequences if not files.blur]}
    if contents.layout.sharp is not None:
        names_by_part["sharp frames"] = [files.name for files in sequences if not files.sharp]
    if has_spikes or contents.has_spikes:
        names_by_part["spikes"] = [files.name for files in sequences if not files.has_spikes]
    faults = []
    for part, names in names_by_part.items():
        if names:
            expected = _pattern(contents, split, part)
            faults.append(
                f"{split}: found {len(names)} of {len(sequences)} sequences without {part} "
                f"({first_few(names)}), expected {expected}; {_REMEDIES[part]}"
            )
    return faults


def _sequence_faults(
    contents: FolderContents, split: str, sequences: Sequence[SequenceFiles]
) -> list[str]:
    """Faults within sequences, such as frames without a partner; the first few of a split."""
    faulty = {}
    for files in sequences:
        faults = list(files.faults)
        if contents.layout.sharp is not None and files.blur and files.sharp:
            faults += frame_faults(files)
        if faults:
            faulty[files.name] = faults
    lines = [f"{split}/{name}: {faults[0]}" for name, faults in list(faulty.items())[:MAX_LINES]]
    if len(faulty) > MAX_LINES:
        lines.append(f"{split}: {len(faulty) - MAX_LINES} more sequences with faults of frames")
    return lines
