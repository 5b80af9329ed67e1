"""Find sequences, frames and spike files in a data set's folder.

Known layouts, found by looking at the folders:

``spk_gopro``
    ``<root>/<split>/<sequence>/{blur,sharp}/NNNNNN.png`` and ``spike/NNNNNN.dat``, one spike file
    per blurry frame with the same number.
``spk_gopro_stream``
    The same frames, and one ``spike.dat`` for the whole sequence.

Only names, sizes and dates are looked at here. The workflow imports this module while it plans, so
it stays within the standard library.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.errors import DataError, list_faults
from vrtspike.files import file_digest, json_digest, read_json

PER_FRAME = "spk_gopro"
STREAM = "spk_gopro_stream"

SHARP_DIR = "sharp"
SPIKE_DIR = "spike"
SPIKE_STREAM = "spike.dat"
SENSOR_FILE = "config.yaml"

_SENSOR_KEY = re.compile(r"^\s*(spike_h|spike_w)\s*:\s*['\"]?(\d+)['\"]?\s*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class SequenceFiles:
    """What lies in a sequence's folder. Paths are relative to the data set's root, POSIX style."""

    split: str
    name: str
    layout: str
    blur: dict[str, str]
    """Blurry frames by their number, such as ``{"000226": "train/.../blur/000226.png"}``."""
    sharp: dict[str, str]
    spikes: dict[str, str]
    """Spike files by number; empty in the stream layout."""
    stream: str | None
    """The sequence's only spike file in the stream layout."""
    sensor_file: str | None
    """A ``config.yaml`` that may give the sensor's size."""

    @property
    def paths(self) -> list[str]:
        """All files the sequence consists of, sorted."""
        single = [path for path in (self.stream, self.sensor_file) if path]
        return sorted([*self.blur.values(), *self.sharp.values(), *self.spikes.values(), *single])


def survey(root: str | os.PathLike[str], splits: Sequence[str], blur_dir: str) -> dict[str, Any]:
    """Find all sequences of a data set; cheap faults are refused, all in one message.

    Args:
        root: the data set's folder.
        splits: folders of the root to look into.
        blur_dir: folder of the blurry frames in a sequence, ``blur`` or ``blur_gamma``.

    Returns:
        ``{"schema": 1, "root", "layout", "sequences": [{"split", "name", "frames"}]}``, sorted.
        ``layout`` is the layouts in use, joined by a plus sign.

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
    found: list[SequenceFiles] = []
    for split in dict.fromkeys(splits):
        names = sequence_names(base, split)
        if not names:
            faults.append(f"{base / split}: no sequence folders; expected {split}/<sequence>/")
        for name in names:
            files = find_sequence(base, split, name, blur_dir)
            faults += _missing_parts(base, files, blur_dir)
            found.append(files)
    if faults:
        advice = f"The expected folders: <split>/<sequence>/{{{blur_dir},{SHARP_DIR},{SPIKE_DIR}}}."
        if found and not any(files.spikes or files.stream for files in found):
            advice += (
                " This looks like GoPro without spike recordings: scripts/simulate.py makes blurry"
                " frames and spikes from the 240 fps frames (GOPRO_Large_all)."
            )
        raise DataError(list_faults(f"{base} cannot be used as it is", faults, advice))
    return {
        "schema": 1,
        "root": str(root),
        "layout": "+".join(sorted({files.layout for files in found})),
        "sequences": [
            {"split": files.split, "name": files.name, "frames": len(files.blur)} for files in found
        ],
    }


def _missing_parts(root: Path, files: SequenceFiles, blur_dir: str) -> list[str]:
    folder = root / files.split / files.name
    faults = []
    if not files.blur:
        faults.append(f"{folder}: no blurry frames ({blur_dir}/*.png)")
    if not files.sharp:
        faults.append(f"{folder}: no sharp frames ({SHARP_DIR}/*.png)")
    if not files.spikes and not files.stream:
        faults.append(f"{folder}: no spikes ({SPIKE_DIR}/*.dat or {SPIKE_STREAM})")
    if files.spikes and files.stream:
        faults.append(
            f"{folder}: both {SPIKE_DIR}/*.dat and {files.stream}; remove the one not meant"
        )
    return faults


def sequence_names(root: Path, split: str) -> list[str]:
    """Folders of a split, sorted; hidden ones and stray files do not count."""
    folder = root / split
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))


def find_sequence(
    root: str | os.PathLike[str], split: str, name: str, blur_dir: str
) -> SequenceFiles:
    """List the files of one sequence.

    Raises:
        DataError: if the sequence's folder does not exist.
    """
    base = Path(root)
    relative = f"{split}/{name}"
    folder = base / split / name
    if not folder.is_dir():
        raise DataError(f"{folder}: no such sequence folder")
    spikes = _numbered(folder / SPIKE_DIR, f"{relative}/{SPIKE_DIR}", ".dat")
    stream = None
    for candidate in (SPIKE_STREAM, f"{SPIKE_DIR}/{SPIKE_STREAM}"):
        if (folder / candidate).is_file():
            stream = f"{relative}/{candidate}"
    spikes.pop(Path(SPIKE_STREAM).stem, None)
    places = (f"{relative}/{SPIKE_DIR}", relative, split, ".")
    sensor = next((p for p in places if (base / p / SENSOR_FILE).is_file()), None)
    return SequenceFiles(
        split=split,
        name=name,
        layout=STREAM if stream and not spikes else PER_FRAME,
        blur=_numbered(folder / blur_dir, f"{relative}/{blur_dir}", ".png"),
        sharp=_numbered(folder / SHARP_DIR, f"{relative}/{SHARP_DIR}", ".png"),
        spikes=spikes,
        stream=stream,
        sensor_file=None if sensor is None else (Path(sensor) / SENSOR_FILE).as_posix(),
    )


def _numbered(folder: Path, relative: str, suffix: str) -> dict[str, str]:
    """Files of a folder by stem; other files (GoPro has a stray text file or two) do not count."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.name.endswith(suffix) and e.name[0] != ".")
    return {name.removesuffix(suffix): f"{relative}/{name}" for name in names}


def sensor_size(root: str | os.PathLike[str], files: SequenceFiles) -> tuple[int, int] | None:
    """Sensor size (h, w) that a ``config.yaml`` beside the spikes gives, or None.

    Raises:
        DataError: if the file gives only one of ``spike_h`` and ``spike_w``, or one of them twice.
    """
    if files.sensor_file is None:
        return None
    path = Path(root) / files.sensor_file
    found = _SENSOR_KEY.findall(path.read_text(encoding="utf-8"))
    if not found:
        return None
    sizes = {key: int(value) for key, value in found}
    if len(found) != 2 or len(sizes) != 2:
        raise DataError(f"{path}: give spike_h and spike_w once each, or neither")
    return sizes["spike_h"], sizes["spike_w"]


def source_version(
    root: str | os.PathLike[str],
    sequence: str,
    split: str,
    manifest_path: str | os.PathLike[str],
    blur_dir: str = "blur",
) -> str:
    """Version of a sequence's raw files, cheap enough to ask while planning.

    Where the ingest manifest of an earlier run lists exactly the present files, each with the same
    size and date (or, when only the date differs, the same contents), the version written there is
    returned: touching a file changes nothing. Otherwise it is a digest of names, sizes and dates.

    Args:
        root: the data set's folder.
        sequence: name of the sequence.
        split: its split.
        manifest_path: where the ingest manifest of the sequence is or will be.
        blur_dir: folder of the blurry frames.

    Returns:
        64 hexadecimal digits.

    Raises:
        DataError: if the sequence's folder does not exist.
    """
    base = Path(root)
    present = [
        (path, *_size_and_date(base / path))
        for path in find_sequence(base, split, sequence, blur_dir).paths
    ]
    known = _known_files(Path(manifest_path), blur_dir)
    if known is not None:
        version, files = known
        if len(files) == len(present) and all(_unchanged(base, files, *item) for item in present):
            return version
    return json_digest({"blur_dir": blur_dir, "files": present})


def _size_and_date(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _known_files(manifest: Path, blur_dir: str) -> tuple[str, dict[str, dict[str, Any]]] | None:
    """Version and files of an earlier manifest; None where there is none that can be trusted."""
    try:
        contents = read_json(manifest)
    except (OSError, json.JSONDecodeError):
        return None
    if contents.get("schema") != 1 or contents.get("blur_dir") != blur_dir:
        return None
    return contents["source_version"], {entry["path"]: entry for entry in contents["files"]}


def changed_files(root: str | os.PathLike[str], manifest: dict[str, Any]) -> list[str]:
    """Files of an ingest manifest whose contents are no longer those that were checked."""
    base = Path(root)
    files = {entry["path"]: entry for entry in manifest["files"]}
    return [
        path
        for path in files
        if not (base / path).is_file()
        or not _unchanged(base, files, path, *_size_and_date(base / path))
    ]


def _unchanged(
    root: Path, files: dict[str, dict[str, Any]], path: str, size: int, date: int
) -> bool:
    entry = files.get(path)
    if entry is None or entry["size"] != size:
        return False
    return bool(entry["mtime_ns"] == date or entry["digest"] == file_digest(root / path))
