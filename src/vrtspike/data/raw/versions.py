"""Versions of raw files, and the files that changed since ingestion; sizes and dates come first.

Like :mod:`vrtspike.data.raw.layouts` it stays within the standard library, because the
workflow uses it while it plans.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from vrtspike.data.manifests import INGESTED, IngestManifest
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.io.files import json_digest
from vrtspike.io.manifests import is_unchanged, read_manifest, size_and_date
from vrtspike.system.errors import DataError

_BLOCKS = 9
_BLOCK = 4096


def source_version(
    root: str | os.PathLike[str], files: SequenceFiles, manifest_path: str | os.PathLike[str]
) -> str:
    """Return the version of a sequence's raw files, cheap enough for planning.

    If the ingest manifest of an earlier run lists exactly the current files, each with the same
    size and date (or, if only the date differs, the same contents), its version is returned:
    touching a file changes nothing. Otherwise it is a digest of names, sizes and dates.

    Args:
        root: the data set's folder.
        files: files of the sequence.
        manifest_path: place of the ingest manifest of the sequence, which need not exist.

    Returns:
        64 hexadecimal digits.
    """
    base = Path(root)
    present = [(path, *size_and_date(base, path)) for path in files.paths]
    version = json_digest({"blur_dir": files.blur_dir, "files": present})
    try:
        manifest = read_manifest(Path(manifest_path), INGESTED)
    except DataError:
        return version
    checked = {entry["path"]: entry for entry in manifest["files"]}
    if manifest["blur_dir"] != files.blur_dir or len(checked) != len(present):
        return version
    if all(is_unchanged(base, checked, path) for path in files.paths):
        return manifest["source_version"]
    return version


def changed_files(root: str | os.PathLike[str], manifest: IngestManifest) -> list[str]:
    """Return files of an ingest manifest whose contents changed since they were checked."""
    base = Path(root)
    files = {entry["path"]: entry for entry in manifest["files"]}
    return [path for path in files if not is_unchanged(base, files, path)]


def folder_version(*folders: Path) -> str:
    """Return digest of the files below folders, see :func:`input_version`; empty if there are none.

    Touching a file changes nothing; another picture under the same name does, and so does another
    name or place below its folder.
    """
    names: dict[Path, str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                names[path] = path.relative_to(folder).as_posix()
    if not names:
        return ""
    return json_digest([list(names.values()), input_version(list(names))])


def input_version(files: Sequence[Path]) -> str:
    """Return the digest of the names and sizes of files, and of blocks of their contents.

    Blocks from the beginning to the end are read, which distinguishes recordings of equal size.
    Edits in place between the blocks of a large file are not noticed.
    """
    return json_digest([(file.name, *_sample(file)) for file in files])


def _sample(file: Path) -> tuple[int, str]:
    """Return the size of a file, and digest of some of its blocks."""
    if not file.is_file():  # a pipe would block
        raise DataError(f"{file}: found no regular file, expected one; remove it or give another")
    size = file.stat().st_size
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for index in range(_BLOCKS):
            stream.seek(max(0, size - _BLOCK) * index // (_BLOCKS - 1))
            digest.update(stream.read(_BLOCK))
    return size, digest.hexdigest()
