"""The table of the raw layouts, and how the one of a data set is found.

``scripts/config_reference.py`` writes the names that DATA.LAYOUT takes from it.
"""

from __future__ import annotations

import os
from pathlib import Path

from vrtspike.deblurring.data.raw.layouts.files import STREAM, SequenceFiles
from vrtspike.deblurring.data.raw.layouts.kair import KAIR
from vrtspike.deblurring.data.raw.layouts.layout import Layout
from vrtspike.deblurring.data.raw.layouts.nafnet import NAFNET
from vrtspike.deblurring.data.raw.layouts.spk_gopro import SPK_GOPRO

LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        KAIR,
        NAFNET,
        SPK_GOPRO,
    )
}
"""By name, in the order in which they are asked whether they recognise a folder."""

AUTO = "auto"
"""The name of whichever layout recognises a folder."""


def find_layout(root: Path, split: str, wanted: str = AUTO) -> Layout:
    """The layout of a split: the one asked for, else the first that recognises its folders.

    A split that none of them recognises is one of :data:`SPK_GOPRO` without sequences.

    Raises:
        DataError: if a folder cannot be looked at.
    """
    if wanted != AUTO:
        return LAYOUTS[wanted]
    known = (layout for layout in LAYOUTS.values() if layout.recognises(root, split))
    return next(known, SPK_GOPRO)


def layout_of(files: SequenceFiles) -> Layout:
    """The layout that files were found in."""
    return LAYOUTS[files.layout.removesuffix(STREAM)]


def sequence_names(root: Path, split: str, layout: str = AUTO) -> list[str]:
    """Sequences of a split, sorted (:meth:`Layout.sequence_names`)."""
    return find_layout(root, split, layout).sequence_names(root, split)


def find_sequence(
    root: str | os.PathLike[str], split: str, name: str, blur_dir: str, layout: str = AUTO
) -> SequenceFiles:
    """List the files of one sequence.

    Raises:
        DataError: if none of the sequence's folders exists, or one cannot be listed.
    """
    base = Path(root)
    return find_layout(base, split, layout).find(base, split, name, blur_dir)
