"""Folders that a user may have meant: other splits, roots above and below, roots of spikes.

Such folders are searched for only if a data set cannot be used as it is named.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from vrtspike.data.data_source import AUTO
from vrtspike.data.raw.layouts.files import SPIKE_SUFFIXES
from vrtspike.data.raw.layouts.folders import listing_errors, visible_entries
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.registry import LAYOUTS, find_layout

MAX_FOLDERS = 200
"""Maximum folders next to or in a root that are searched."""


@listing_errors()
def other_splits(root: Path, splits: Sequence[str], layout: str = AUTO) -> list[str]:
    """Splits below a root whose folders look like a layout, without the given ones.

    Args:
        root: the data set's folder.
        splits: names of splits to leave out.
        layout: name of a layout; ``auto`` is any.

    Raises:
        DataError: if a folder cannot be looked at.
    """
    layouts = [LAYOUTS[layout]] if layout != AUTO else list(LAYOUTS.values())
    result: set[str] = set()
    for folder in _folders(root):
        for kind in layouts:
            for split in _splits_named(kind, folder.name):
                if split not in splits and kind.recognizes(root, split):
                    result.add(split)
    return sorted(result)


def other_roots(root: Path, splits: Sequence[str], layout: str = AUTO) -> list[Path]:
    """Return folders above and below a root that hold a split in a known layout.

    Raises:
        DataError: if a folder cannot be looked at.
    """
    layouts = [LAYOUTS[layout]] if layout != AUTO else list(LAYOUTS.values())
    candidates = [*root.absolute().parents[:2], *_folders(root)]
    return [
        folder
        for folder in candidates
        if any(kind.recognizes(folder, split) for kind in layouts for split in splits)
    ]


def spike_roots(root: Path, split: str, sequence: str, layout: str = AUTO) -> list[Path]:
    """Return folders next to a root or in it that hold spikes of a sequence, for DATA.SPIKE_ROOT.

    Args:
        root: the data set's folder.
        split: split of the sequence.
        sequence: name of the sequence.
        layout: layout of the data set.

    Raises:
        DataError: if a folder cannot be looked at.
    """
    paths = find_layout(root, split, layout).sequence_paths(split, sequence, "blur")
    streams = [f"{stream}{suffix}" for stream in paths.streams for suffix in SPIKE_SUFFIXES]
    frame_patterns = []
    if paths.spike:
        frame_patterns = [f"{glob.escape(paths.spike)}*{suffix}" for suffix in SPIKE_SUFFIXES]
    result = []
    for folder in [*_folders(root.absolute().parent), *_folders(root)]:
        has_stream = any((folder / path).is_file() for path in streams)
        if has_stream or any(any(folder.glob(pattern)) for pattern in frame_patterns):
            result.append(folder)
    return result


def _splits_named(layout: Layout, folder: str) -> set[str]:
    """Return the splits that a folder's name means: ``val`` of ``val_blurry_33``."""
    result = set()
    for group in layout.required_folders:
        for folder_pattern in group:
            pattern = re.escape(folder_pattern.split("/")[0]).replace(
                r"\{split\}", "(?P<split>.+)", 1
            )
            match = re.fullmatch(pattern, folder)
            if match and "split" in match.groupdict():
                result.add(match["split"])
    return result


@listing_errors()
def _folders(parent: Path) -> Iterator[Path]:
    """Yield some of the folders in one, sorted by name, without hidden and foreign ones."""
    folders = [entry for entry in visible_entries(parent, set()) if entry.is_dir()]
    for name in sorted(folder.name for folder in folders)[:MAX_FOLDERS]:
        yield parent / name
