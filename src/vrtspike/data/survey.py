"""Which sequences a data set's folder holds; cheap faults are refused here.

Like :mod:`vrtspike.data.layouts` it looks at names only and stays within the standard library,
because the workflow imports it while it plans.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vrtspike.data.layouts import (
    AUTO,
    LAYOUTS,
    SequenceFiles,
    find_layout,
    find_sequence,
    places,
    sequence_names,
)
from vrtspike.errors import DataError, list_faults


def survey(
    root: str | os.PathLike[str],
    splits: Sequence[str],
    blur_dir: str,
    layout: str = AUTO,
    *,
    exclude: bool = False,
) -> dict[str, Any]:
    """Find all sequences of a data set; cheap faults are refused, all in one message.

    Args:
        root: the data set's folder.
        splits: folders of the root to look into.
        blur_dir: which blurry frames, ``blur`` or ``blur_gamma``.
        layout: name of a layout; ``auto`` looks at the folders.
        exclude: leave out sequences with faults and record them, instead of refusing all.

    Returns:
        ``{"schema": 1, "root", "layout", "sequences": [{"split", "name", "frames"}], "excluded"}``,
        sorted. ``layout`` is the layouts in use, joined by a plus sign; ``excluded`` holds the
        faults of each sequence that was left out.

    Raises:
        DataError: if the root or a split is missing or empty, or a sequence lacks frames or spikes.
    """
    base = Path(root)
    if not base.is_dir():
        raise DataError(
            f"data set folder {base} does not exist; set DATA.ROOT to the folder that holds "
            f"{' and '.join(splits)}, or generate the demo data (scripts/demo_data.py)"
        )
    faults: list[str] = []
    excluded: dict[str, list[str]] = {}
    found: list[SequenceFiles] = []
    files: SequenceFiles | None
    for split in dict.fromkeys(splits):
        try:
            kind = find_layout(base, split, layout)
            names = sequence_names(base, split, layout)
        except DataError as error:
            faults.append(str(error))
            continue
        if not names:
            where = kind.sharp.format(split=split, sequence="<sequence>", gamma="")
            faults.append(f"{base / split}: no sequence folders; expected {where}/")
        for name in names:
            try:
                files = find_sequence(base, split, name, blur_dir, layout)
                missing = _missing_parts(base, files, blur_dir)
            except DataError as error:
                files, missing = None, [str(error)]
            if missing and exclude:
                excluded[f"{split}/{name}"] = missing
                continue
            faults += missing
            if files is not None:
                found.append(files)
        if names and not any(files.split == split for files in found):
            faults.append(f"{base / split}: all {len(names)} sequences have faults")
    if faults:
        raise DataError(
            list_faults(f"{base} cannot be used as it is", faults, _advice(base, found, blur_dir))
        )
    return {
        "schema": 1,
        "root": str(root),
        "layout": "+".join(sorted({files.layout for files in found})),
        "sequences": [
            {"split": files.split, "name": files.name, "frames": len(files.blur)} for files in found
        ],
        "excluded": excluded,
    }


def _advice(root: Path, found: Sequence[SequenceFiles], blur_dir: str) -> str:
    advice = f"The expected folders: <split>/<sequence>/{{{blur_dir},sharp,spike}}."
    if found and not any(files.spikes or files.stream for files in found):
        advice += (
            " This looks like GoPro without spike recordings: scripts/simulate.py makes blurry"
            " frames and spikes from the 240 fps frames (GOPRO_Large_all)."
        )
        if not any(files.blur or files.sharp for files in found):
            advice += f" For all folders of frames at once: scripts/simulate.py --source {root}"
    return advice


def _missing_parts(root: Path, files: SequenceFiles, blur_dir: str) -> list[str]:
    place = f"{root / files.split / files.name}"
    kind = LAYOUTS[files.layout.removesuffix("_stream")]
    folders = places(kind, files.split, files.name, blur_dir)
    faults = [f"{place}: {fault}" for fault in files.faults]
    if not files.blur:
        faults.append(f"{place}: no blurry frames ({folders['blur']}/*.png)")
    if not files.sharp:
        faults.append(f"{place}: no sharp frames ({folders['sharp']}/*.png)")
    if not files.spikes and not files.stream:
        streams = [f"{s}.dat" for s in kind.streams]
        stream = streams[0].format(split=files.split, sequence=files.name)
        faults.append(f"{place}: no spikes ({folders['spike']}/*.dat or {stream}, or .npz)")
    if files.spikes and files.stream:
        faults.append(
            f"{place}: both {folders['spike']}/*.dat and {files.stream}; remove the one not meant"
        )
    return faults
