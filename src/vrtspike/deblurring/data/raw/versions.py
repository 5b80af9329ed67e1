"""Whether raw files are still those that were ingested; sizes and dates before contents.

Like :mod:`vrtspike.deblurring.data.raw.layouts` it stays within the standard library, because the
workflow asks while it plans.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from vrtspike.deblurring.data.manifests import INGESTED
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.layouts.table import AUTO, find_sequence
from vrtspike.errors import DataError
from vrtspike.files import json_digest
from vrtspike.manifests import read_manifest
from vrtspike.versions import is_unchanged, size_and_date


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
    present = [(path, *size_and_date(Path(root), path)) for path in files.paths]
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
    present = [(path, *size_and_date(base, path)) for path in files_found.paths]
    known = _known_files(Path(manifest_path), blur_dir)
    unread: list[str] = []
    if known is not None:
        version, files = known
        if len(files) == len(present) and all(is_unchanged(base, files, *item) for item in present):
            return version
        unread = [path for path, entry in files.items() if not entry["digest"]]
    contents: dict[str, Any] = {"blur_dir": blur_dir, "files": present}
    return json_digest({**contents, "unread before": unread} if unread else contents)


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
        or not is_unchanged(base, files, path, *size_and_date(base, path))
    ]
