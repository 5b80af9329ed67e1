"""The table of the raw layouts, and how the one of a data set is found.

``scripts/config_reference.py`` writes the names that DATA.LAYOUT takes from it.
"""

from __future__ import annotations

import os
from pathlib import Path

from vrtspike.deblurring.data.raw.layouts import s_sdm, spk_gopro, spk_x4k, stream
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.layouts.layout import Layout
from vrtspike.deblurring.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.deblurring.data.raw.numbering import find_jumps, frame_order
from vrtspike.system.errors import DataError

MODULES = (
    spk_gopro,
    spk_x4k,
    s_sdm,
    stream,
)
"""Each lists its layouts."""

LAYOUTS: dict[str, Layout] = {
    layout.name: layout for module in MODULES for layout in module.LAYOUTS
}
"""By name."""

AUTO = "auto"
"""The name of whichever layout recognises a folder."""


def find_layout(root: Path, split: str, wanted: str = AUTO) -> Layout:
    """The layout of a split: the one asked for, else the one that recognises its folders.

    A split that none of them recognises is one of :data:`SPK_GOPRO` without sequences.

    Raises:
        DataError: if several recognise them, or a folder cannot be looked at.
    """
    if wanted != AUTO:
        return LAYOUTS[wanted]
    known = [layout for layout in LAYOUTS.values() if layout.recognises(root, split)]
    if len(known) > 1:
        names = " and ".join(layout.name for layout in known)
        raise DataError(
            f"{root}: the folders of split {split} fit the layouts {names}; set DATA.LAYOUT to the "
            "one that is meant"
        )
    return known[0] if known else SPK_GOPRO


def find_sequence(
    root: str | os.PathLike[str],
    sequence: str,
    blur_dir: str,
    layout: str = AUTO,
    spike_root: str | None = None,
) -> SequenceFiles:
    """List the files of one sequence, ``<split>/<name>``; a split may be a path (``sub/train``).

    Raises:
        DataError: if a folder cannot be listed.
    """
    base = Path(root)
    split, _, name = sequence.rpartition("/")
    return find_layout(base, split, layout).find(base, split, name, blur_dir, spike_root)


def frame_faults(files: SequenceFiles) -> list[str]:
    """Frames that lack their blurry, sharp or spike partner, and gaps in their numbers."""
    parts = {files.blur_dir: set(files.blur), "sharp": set(files.sharp)}
    if files.spikes and files.stream is None:
        parts["spike"] = set(files.spikes)
    everything = set().union(*parts.values())
    if not everything:
        return [f"{files.split}/{files.name}: no frames at all"]
    lacking = [
        f"frame {name} is in {', '.join(part for part in parts if name in parts[part])} but has no "
        f"partner in {', '.join(part for part in parts if name not in parts[part])}"
        for name in sorted(everything, key=frame_order)
        if not all(name in present for present in parts.values())
    ]
    layout = LAYOUTS[files.layout]
    names = sorted(set(files.blur) & set(files.sharp), key=frame_order)
    jumps = [
        f"frame numbers jump from {name} to {following}: frames are missing; put them back, or "
        "make two sequences of it"
        for name, following in find_jumps(names, layout.step, layout.numbers)[1]
    ]
    return lacking + jumps
