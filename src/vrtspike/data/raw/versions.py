"""Whether raw files are still those that were ingested; sizes and dates before contents.

Like :mod:`vrtspike.data.raw.layouts` it stays within the standard library, because the workflow
asks while it plans.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from vrtspike.data.manifests import INGESTED, read_manifest
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.table import AUTO, find_sequence
from vrtspike.errors import DataError
from vrtspike.files import file_digest, json_digest


class RawState(NamedTuple):
    """A sequence's raw files as their names, sizes and dates show them."""

    version: str
    """What :func:`source_version` says of files that were never ingested."""
    nbytes: int
    """Bytes of all of them."""


def raw_state(root: str | os.PathLike[str], files: SequenceFiles, blur_dir: str) -> RawState:
    """Look at sizes and dates of a sequence's files, and at nothing else.

    Args:
        root: the data set's folder.
        files: of the sequence.
        blur_dir: which blurry frames.
    """
    present = [(path, *_size_and_date(Path(root), path)) for path in files.paths]
    nbytes = sum(max(0, size) for _, size, _ in present)
    return RawState(json_digest({"blur_dir": blur_dir, "files": present}), nbytes)


def source_version(
    root: str | os.PathLike[str],
    sequence: str,
    split: str,
    manifest_path: str | os.PathLike[str],
    blur_dir: str = "blur",
    layout: str = AUTO,
) -> str:
    """Version of a sequence's raw files, cheap enough to ask while planning.

    Where the ingest manifest of an earlier run lists exactly the present files, each with the same
    size and date (or, when only the date differs, the same contents), the version written there is
    returned: touching a file changes nothing. Otherwise it is a digest of names, sizes and dates.
    A file that could not be read then and can be now counts as changed.

    Args:
        root: the data set's folder.
        sequence: name of the sequence.
        split: its split.
        manifest_path: where the ingest manifest of the sequence is or will be.
        blur_dir: which blurry frames.
        layout: name of a layout, or ``auto``.

    Returns:
        64 hexadecimal digits.

    Raises:
        DataError: if the sequence's folder does not exist.
    """
    base = Path(root)
    files_found = find_sequence(base, split, sequence, blur_dir, layout)
    present = [(path, *_size_and_date(base, path)) for path in files_found.paths]
    known = _known_files(Path(manifest_path), blur_dir)
    unread: list[str] = []
    if known is not None:
        version, files = known
        if len(files) == len(present) and all(_unchanged(base, files, *item) for item in present):
            return version
        unread = [path for path, entry in files.items() if not entry["digest"]]
    contents: dict[str, Any] = {"blur_dir": blur_dir, "files": present}
    return json_digest({**contents, "unread before": unread} if unread else contents)


def _size_and_date(root: Path, path: str) -> tuple[int, int]:
    """Size and date of a file; -1 where there is none to be seen, which the job reports."""
    try:
        # A string: a plan asks for every raw file, and making a Path takes longer than asking.
        status = os.stat(f"{root}/{path}")  # noqa: PTH116
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def file_entry(root: Path, path: str) -> dict[str, Any]:
    """What an ingest manifest keeps of a file; its ``digest`` is empty if it cannot be read.

    Returns:
        ``{"path", "size", "mtime_ns", "digest"}``.
    """
    size, date = _size_and_date(root, path)
    return {
        "path": path,
        "size": size,
        "mtime_ns": date,
        "digest": _digest(root / path),
    }


def _digest(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError:
        return ""


def _known_files(manifest: Path, blur_dir: str) -> tuple[str, dict[str, dict[str, Any]]] | None:
    """Version and files of an earlier manifest; None where there is none that can be trusted."""
    try:
        contents = read_manifest(manifest, INGESTED)
    except DataError:
        return None
    if contents["blur_dir"] != blur_dir:
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
        or not _unchanged(base, files, path, *_size_and_date(base, path))
    ]


def _unchanged(
    root: Path, files: dict[str, dict[str, Any]], path: str, size: int, date: int
) -> bool:
    entry = files.get(path)
    if entry is None or entry["size"] != size:
        return False
    if not entry["digest"]:  # permissions change without the date
        return not _digest(root / path)
    return bool(entry["mtime_ns"] == date or entry["digest"] == _digest(root / path))
