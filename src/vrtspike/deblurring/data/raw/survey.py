"""Which sequences a data set's folder holds, and which faults show without opening a file.

Like :mod:`vrtspike.deblurring.data.raw.layouts` it looks at names only and stays within the
standard library, because the workflow imports it while it plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.layouts.layout import Layout, advice
from vrtspike.deblurring.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.deblurring.data.raw.layouts.table import AUTO, find_layout, layout_of
from vrtspike.errors import DataError, list_faults, named_faults

UNUSABLE = frozenset("{}")
"""What may not occur in the name of a sequence."""


def survey(
    root: str | os.PathLike[str],
    splits: Sequence[str],
    blur_dir: str,
    layout: str = AUTO,
    look: Callable[[SequenceFiles], None] | None = None,
) -> dict[str, Any]:
    """Find all sequences of a data set, and set aside those with faults that names show.

    Faults are recorded, not raised, so that the gate (:mod:`vrtspike.deblurring.data.gate.accept`)
    can list them together with those that only the contents show.

    Args:
        root: the data set's folder.
        splits: folders of the root to look into.
        blur_dir: which blurry frames, ``blur`` or ``blur_gamma``.
        layout: name of a layout; ``auto`` looks at the folders.
        look: called with the files of each sequence whose folders can be listed; they are not kept.

    Returns:
        ``{"schema": 1, "root", "layout", "spikes", "sequences": [{"split", "name", "frames"}],
        "excluded"}``, sorted. ``layout`` is the layouts in use, joined by a plus sign; ``spikes``
        is false where no sequence has spike files; ``excluded`` holds the faults of each sequence
        that is not among ``sequences``, by ``<split>/<name>``, and of each split without any
        sequence, by its name.

    Raises:
        DataError: if the root is missing, or no sequence below it is without a fault.
    """
    base = Path(root)
    if not base.is_dir():
        raise DataError(
            f"data set folder {base} does not exist; set DATA.ROOT to the folder that holds "
            f"{' and '.join(splits)}, or generate the demo data (scripts/demo_data.py)"
        )
    excluded: dict[str, list[str]] = {}
    looked_at: list[_LookedAt] = []
    kinds: list[Layout] = []
    for split in dict.fromkeys(splits):
        try:
            kind = find_layout(base, split, layout)
            names = kind.sequence_names(base, split)
        except DataError as error:
            excluded[split] = [str(error)]
            continue
        if not names:
            where = kind.places(split, "<sequence>", blur_dir).sharp
            excluded[split] = [f"no sequence folders; expected {base / where}"]
        kinds.append(kind)
        looked_at += [_look_at(kind, base, split, name, blur_dir, look) for name in names]
    spikes = any(s.has_spikes for s in looked_at)
    if spikes:
        for sequence in looked_at:
            if sequence.layout and not sequence.has_spikes:
                sequence.faults.append(sequence.no_spikes)
    excluded |= {f"{s.split}/{s.name}": s.faults for s in looked_at if s.faults}
    sound = [s for s in looked_at if not s.faults]
    if not sound:
        found = [s for s in looked_at if s.layout]
        title, what_to_do = f"{base} cannot be used as it is", _advice(base, kinds, found, blur_dir)
        raise DataError(list_faults(title, named_faults(excluded), what_to_do))
    return {
        "schema": SURVEY.schema,
        "root": str(root),
        "layout": "+".join(sorted({s.layout for s in sound})),
        "spikes": spikes,
        "sequences": [{"split": s.split, "name": s.name, "frames": s.frames} for s in sound],
        "excluded": excluded,
    }


def _advice(root: Path, kinds: Sequence[Layout], found: Sequence[_LookedAt], blur_dir: str) -> str:
    texts = dict.fromkeys(advice(kind, blur_dir) for kind in kinds or [SPK_GOPRO])
    text = f"{' '.join(texts)} DATA.LAYOUT names another layout."
    if found and not any(s.has_files for s in found):
        text += (
            " These look like folders of sharp frames only (GOPRO_Large_all): blurry frames and "
            f"spikes are made of all of them by scripts/simulate.py --source {root}"
        )
    return text


@dataclass
class _LookedAt:
    """A sequence, as far as it could be looked at; its files are too many to be kept."""

    split: str
    name: str
    layout: str = ""
    """Empty where its folders cannot be listed."""
    frames: int = 0
    has_files: bool = False
    has_spikes: bool = False
    no_spikes: str = ""
    """What is wrong with it where others have spikes."""
    faults: list[str] = field(default_factory=list)


def _look_at(
    kind: Layout,
    root: Path,
    split: str,
    name: str,
    blur_dir: str,
    look: Callable[[SequenceFiles], None] | None,
) -> _LookedAt:
    try:
        files = kind.find(root, split, name, blur_dir)
        faults = _missing_frames(files, blur_dir)
    except DataError as error:
        return _LookedAt(split, name, faults=[str(error)])
    if look is not None:
        look(files)
    return _LookedAt(
        split,
        name,
        files.layout,
        len(files.blur),
        bool(files.blur or files.sharp or files.has_spikes),
        files.has_spikes,
        "" if files.has_spikes else _missing_spikes(files, blur_dir),
        faults,
    )


def _missing_frames(files: SequenceFiles, blur_dir: str) -> list[str]:
    places = layout_of(files).places(files.split, files.name, blur_dir)
    faults = list(files.faults)
    if not UNUSABLE.isdisjoint(files.name):
        faults.append("the workflow takes { and } for placeholders; rename the sequence")
    if not files.blur:
        faults.append(f"no blurry frames ({places.blur})")
    if not files.sharp:
        faults.append(f"no sharp frames ({places.sharp})")
    if files.spikes and files.stream:
        faults.append(f"both {places.spikes} and {files.stream}; remove the one not meant")
    return faults


def _missing_spikes(files: SequenceFiles, blur_dir: str) -> str:
    """What a sequence without spikes lacks where others have them."""
    places = layout_of(files).places(files.split, files.name, blur_dir)
    return f"no spikes ({places.spikes} or {places.stream}, or .npz), but other sequences have them"
