"""Which sequences a data set's folder holds, and which faults show without opening a file.

Like :mod:`vrtspike.data.raw.layouts` it looks at names only and stays within the
standard library, because the workflow imports it while it plans.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vrtspike.data.manifests import SURVEY
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.folders import UNICODE_FORMS, in_other_case
from vrtspike.data.raw.layouts.layout import Layout, Places, advice
from vrtspike.data.raw.layouts.registry import AUTO, LAYOUTS, find_layout
from vrtspike.data.raw.nearby import other_roots, other_splits
from vrtspike.system.errors import DataError, is_text, list_faults, named_faults, shown

UNUSABLE = frozenset("{}")
"""What may not occur in the name of a sequence."""
LONGEST = 230
"""Bytes in the name of a sequence; file systems take 255, and results have suffixes."""


def survey(
    root: str | os.PathLike[str],
    splits: Sequence[str],
    blur_dir: str,
    layout: str = AUTO,
    look: Callable[[SequenceFiles], None] | None = None,
    spike_root: str | None = None,
) -> dict[str, Any]:
    """Find all sequences of a data set, and set aside those with faults that names show.

    Faults are recorded, not raised, so that the gate (:mod:`vrtspike.data.gate.accept`)
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
    _require_folders(base, spike_root, splits)
    excluded: dict[str, list[str]] = {}
    sequences: dict[str, dict[str, Any]] = {}
    without_spikes: dict[str, str] = {}
    layouts: dict[str, Layout] = {}
    foreign: set[str] = set()
    usual = _usual_layout(base, splits, layout)
    for split in dict.fromkeys(splits):
        try:
            kind = find_layout(base, split, layout, usual)
            _require_truth(kind, base)
            names = kind.sequence_names(base, split, spike_root, foreign)
        except DataError as error:
            excluded[split] = [str(error)]
            continue
        layouts[split] = kind
        if not names:
            where = f"{kind.places(split, '<sequence>', blur_dir).sharp}*.png"
            hint = _split_hint(base, split, splits, layout)
            excluded[split] = [f"no sequence folders; expected {base / where}{hint}"]
        for twins in _look_alikes(names):
            names = [name for name in names if name not in twins]
            excluded[f"{split}/{twins[0]}"] = [f"found two folders of it{UNICODE_FORMS}"]
        for name in names:
            sequence = f"{split}/{shown(name)}"
            try:
                _require_usable(name)
                files = kind.find(base, split, name, blur_dir, spike_root)
            except DataError as error:
                excluded[sequence] = [str(error)]
                continue
            if look is not None:
                look(files)
            sequences[sequence] = {"split": split, "name": name, "frames": len(files.blur)}
            places = kind.places(split, name, blur_dir, spike_root)
            if faults := _missing_frames(files, places):
                excluded[sequence] = faults
            if not files.has_spikes:
                without_spikes[sequence] = places.spikes_wanted
    spikes = spike_root is not None or len(without_spikes) < len(sequences)
    why = "other sequences have them" if spike_root is None else "DATA.SPIKE_ROOT is set"
    for name, place in without_spikes.items() if spikes else ():
        excluded.setdefault(name, []).append(f"no spikes ({place}, or .npz), but {why}")
    sound = [name for name in sequences if name not in excluded]
    if not sound:
        advices = dict.fromkeys(advice(kind, blur_dir) for kind in layouts.values())
        raise DataError(
            list_faults(
                f"{base} cannot be used as it is",
                named_faults(excluded),
                " ".join(
                    [
                        *_other_root(base, splits, layout),
                        *advices,
                        "DATA.LAYOUT names another layout.",
                    ]
                ),
            )
        )
    return {
        "schema": SURVEY.schema,
        "root": str(root),
        "layout": "+".join(sorted({layouts[sequences[name]["split"]].name for name in sound})),
        "spikes": spikes,
        "sequences": [sequences[name] for name in sound],
        "excluded": excluded,
        **({"passed_over": sorted(foreign)} if foreign else {}),
    }


def _usual_layout(root: Path, splits: Sequence[str], layout: str) -> Layout | None:
    """The layout of the first split that one recognises; None where there is none."""
    if layout != AUTO:
        return LAYOUTS[layout]
    for split in splits:
        for kind in LAYOUTS.values():
            if kind.recognises(root, split):
                return kind
    return None


def _split_hint(root: Path, split: str, splits: Sequence[str], layout: str) -> str:
    """A clause on what stands there in place of a split without sequences; empty for nothing."""
    alike = in_other_case(root, split)
    if alike:
        return f"; found the folder {alike}: rename it"
    others = other_splits(root, splits, layout)
    if not others:
        return ""
    is_trained = len(splits) > 1 and split == splits[0]
    name = "DATA.TRAIN_SPLIT" if is_trained else "DATA.VAL_SPLIT"
    return f"; found the split {' and '.join(others)}: set {name} to the one that is meant"


def _other_root(root: Path, splits: Sequence[str], layout: str) -> list[str]:
    """A sentence on the root that may be meant; empty where none is near."""
    others = other_roots(root, splits, layout)
    if not others:
        return []
    return [f"Did you mean DATA.ROOT {' or '.join(map(str, others))}, which holds such folders?"]


def _require_folders(root: Path, spike_root: str | None, splits: Sequence[str]) -> None:
    """Refuse roots that are no folders.

    Raises:
        DataError: naming the key.
    """
    wanted = f"the folder that holds {' and '.join(splits)}"
    if not root.is_dir():
        found = (
            "is a file (an archive has to be unpacked first)" if root.exists() else "does not exist"
        )
        raise DataError(
            f"data set folder {root} {found}; set DATA.ROOT to {wanted}, or generate the demo data "
            "(scripts/demo_data.py)"
        )
    if spike_root is not None and not Path(spike_root).is_dir():
        raise DataError(
            f"folder of spikes {spike_root} does not exist; set DATA.SPIKE_ROOT to {wanted} with "
            "spike files, or to null where they lie beside the frames"
        )


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


def _look_alikes(names: Sequence[str]) -> list[list[str]]:
    """Groups of names that are the same text in different forms of Unicode."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(unicodedata.normalize("NFC", name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _require_usable(name: str) -> None:
    """Refuse names of sequences that manifests, results or the workflow cannot have.

    Raises:
        DataError: saying why.
    """
    if not is_text(name):
        raise DataError("its name is not UTF-8; rename the sequence")
    if not UNUSABLE.isdisjoint(name):
        raise DataError("the workflow takes { and } for placeholders; rename the sequence")
    if (length := len(name.encode())) > LONGEST:
        raise DataError(
            f"a name of {length} bytes, expected at most {LONGEST}; rename the sequence"
        )


def _missing_frames(files: SequenceFiles, places: Places) -> list[str]:
    faults = list(files.faults)
    if not files.blur:
        faults.append(f"no blurry frames ({places.blur}*.png)")
    if not files.sharp:
        faults.append(f"no sharp frames ({places.sharp}*.png); vrtspike restore does without them")
    if files.spikes and files.stream:
        first = next(iter(files.spikes.values()))
        faults.append(f"both {first} and {files.stream}; remove the one not meant")
    return faults
