"""Which sequences a data set's folder holds, and which faults show without opening a file.

Like :mod:`vrtspike.deblurring.data.raw.layouts` it looks at names only and stays within the
standard library, because the workflow imports it while it plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.layouts.folders import in_other_case
from vrtspike.deblurring.data.raw.layouts.layout import Layout, advice
from vrtspike.deblurring.data.raw.layouts.registry import AUTO, find_layout, layout_of
from vrtspike.errors import DataError, is_text, list_faults, named_faults, shown

UNUSABLE = frozenset("{}")
"""What may not occur in the name of a sequence."""
LONGEST = 230
"""Bytes in the name of a sequence; file systems take 255, and results have suffixes."""


class _Found(NamedTuple):
    """A sequence whose folders can be listed; its files are too many to be kept."""

    layout: str
    frames: int
    has_files: bool
    no_spikes: str
    """What it lacks where others have spikes; empty where it has them."""
    faults: list[str]


def survey(
    root: str | os.PathLike[str],
    splits: Sequence[str],
    blur_dir: str,
    layout: str = AUTO,
    look: Callable[[SequenceFiles], None] | None = None,
    spike_root: str | None = None,
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
        spike_root: where spikes lie under a root of their own (DATA.SPIKE_ROOT).

    Returns:
        ``{"schema": 1, "root", "layout", "spikes", "sequences": [{"split", "name", "frames"}],
        "excluded"}``, sorted. ``layout`` is the layouts in use, joined by a plus sign; ``spikes``
        is false where no sequence has spike files; ``excluded`` holds the faults of each sequence
        that is not among ``sequences``, by ``<split>/<name>``, and of each split without any
        sequence, by its name. Where archives and file systems have put folders of their own among
        the sequences (``__MACOSX``, ``lost+found``), ``passed_over`` lists these.

    Raises:
        DataError: if the root is missing, or no sequence below it is without a fault.
    """
    base = Path(root)
    if base.exists() and not base.is_dir():
        raise DataError(
            f"{base} is a file; set DATA.ROOT to the folder that holds {' and '.join(splits)} (an "
            "archive has to be unpacked first)"
        )
    if not base.is_dir():
        raise DataError(
            f"data set folder {base} does not exist; set DATA.ROOT to the folder that holds "
            f"{' and '.join(splits)}, or generate the demo data (scripts/demo_data.py)"
        )
    if spike_root is not None and not Path(spike_root).is_dir():
        raise DataError(
            f"folder of spikes {spike_root} does not exist; set DATA.SPIKE_ROOT to the folder that "
            f"holds {' and '.join(splits)} with spike files, or to null where they lie beside the "
            "frames"
        )
    excluded: dict[str, list[str]] = {}
    found: dict[str, _Found] = {}
    kinds: list[Layout] = []
    foreign: set[str] = set()
    for split in dict.fromkeys(splits):
        try:
            kind = find_layout(base, split, layout)
            _require_truth(kind, base)
            names = kind.sequence_names(base, split, spike_root, foreign)
        except DataError as error:
            excluded[split] = [str(error)]
            continue
        if not names:
            where = kind.places(split, "<sequence>", blur_dir).sharp
            alike = in_other_case(base, split)
            hint = f"; found the folder {alike}: rename it" if alike else ""
            excluded[split] = [f"no sequence folders; expected {base / where}{hint}"]
        kinds.append(kind)
        for name in names:
            if not is_text(name):
                excluded[f"{split}/{shown(name)}"] = ["its name is not UTF-8; rename the sequence"]
                continue
            try:
                files = kind.find(base, split, name, blur_dir, spike_root)
                faults = _missing_frames(files, blur_dir)
            except DataError as error:
                excluded[f"{split}/{name}"] = [str(error)]
                continue
            if look is not None:
                look(files)
            has_files = bool(files.blur or files.sharp or files.has_spikes)
            no_spikes = "" if files.has_spikes else _missing_spikes(files, blur_dir, spike_root)
            found[f"{split}/{name}"] = _Found(
                files.layout, len(files.blur), has_files, no_spikes, faults
            )
    spikes = spike_root is not None or any(not each.no_spikes for each in found.values())
    for name, each in found.items():
        faults = [*each.faults, *([each.no_spikes] if spikes and each.no_spikes else [])]
        if faults:
            excluded[name] = faults
    sound = {name: each for name, each in found.items() if name not in excluded}
    if not sound:
        title, what_to_do = f"{base} cannot be used as it is", _advice(base, kinds, found, blur_dir)
        raise DataError(list_faults(title, named_faults(excluded), what_to_do))
    return {
        "schema": SURVEY.schema,
        "root": str(root),
        "layout": "+".join(sorted({each.layout for each in sound.values()})),
        "spikes": spikes,
        "sequences": [
            dict(zip(("split", "name"), name.split("/", 1), strict=True)) | {"frames": each.frames}
            for name, each in sound.items()
        ],
        "excluded": excluded,
        **({"passed_over": sorted(foreign)} if foreign else {}),
    }


def _require_truth(layout: Layout, root: Path) -> None:
    """Refuse a set without sharp frames for training and evaluation.

    Raises:
        DataError: naming the way to restore it.
    """
    if layout.sharp is None:
        raise DataError(
            f"{root}: the layout {layout.name} has no sharp frames, so nothing can be trained on "
            "it or measured against; its sequences can be restored and judged by: vrtspike restore "
            f"RUN {root / layout.blur.format(sequence='<sequence>')} --spikes "
            f"{root / str(layout.spike).format(sequence='<sequence>')} --layout {layout.name}"
        )


def _advice(root: Path, kinds: Sequence[Layout], found: Mapping[str, _Found], blur_dir: str) -> str:
    texts = dict.fromkeys(advice(kind, blur_dir) for kind in kinds)
    text = " ".join([*texts, "DATA.LAYOUT names another layout."])
    if found and not any(each.has_files for each in found.values()):
        text += (
            " These look like folders of sharp frames only (GOPRO_Large_all): blurry frames and "
            f"spikes are made of all of them by scripts/simulate.py --source {root}"
        )
    return text


def _missing_frames(files: SequenceFiles, blur_dir: str) -> list[str]:
    places = layout_of(files).places(files.split, files.name, blur_dir)
    faults = list(files.faults)
    if not UNUSABLE.isdisjoint(files.name):
        faults.append("the workflow takes { and } for placeholders; rename the sequence")
    if (length := len(files.name.encode())) > LONGEST:
        faults.append(f"a name of {length} bytes, expected at most {LONGEST}; rename the sequence")
    if not files.blur:
        faults.append(f"no blurry frames ({places.blur})")
    if not files.sharp:
        faults.append(f"no sharp frames ({places.sharp}); vrtspike restore does without them")
    if files.spikes and files.stream:
        faults.append(f"both {places.spikes} and {files.stream}; remove the one not meant")
    return faults


def _missing_spikes(files: SequenceFiles, blur_dir: str, spike_root: str | None) -> str:
    """What a sequence without spikes lacks where others have them."""
    places = layout_of(files).places(files.split, files.name, blur_dir, spike_root)
    why = "other sequences have them" if spike_root is None else "DATA.SPIKE_ROOT is set"
    return f"no spikes ({places.spikes} or {places.stream}, or .npz), but {why}"
