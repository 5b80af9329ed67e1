"""Versions of folders and large files, cheap enough to ask while planning."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from vrtspike.errors import DataError
from vrtspike.files import json_digest

TAIL = 64
"""Bytes read at the end of a file. A PNG ends with checksums of its whole picture."""

_BLOCKS = 9
_BLOCK = 4096


def folder_version(folder: Path) -> str:
    """Digest of a folder's file names, sizes and last bytes: 64 hexadecimal digits.

    Touching a file changes nothing; another picture under the same name does.

    Raises:
        DataError: if there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    with os.scandir(folder) as entries:
        files = sorted(Path(e.path) for e in entries if e.is_file() and not e.name.startswith("."))
    return json_digest([(file.name, *_size_and_tail(file)) for file in files])


def input_version(files: Sequence[Path]) -> str:
    """Digest of the names and sizes of files, and of blocks of their contents.

    Blocks from the beginning to the end are read, which tells recordings of equal size apart.
    """
    return json_digest([(file.name, *_sample(file)) for file in files])


def _sample(file: Path) -> tuple[int, str]:
    size = file.stat().st_size
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for place in range(_BLOCKS):
            stream.seek(max(0, size - _BLOCK) * place // (_BLOCKS - 1))
            digest.update(stream.read(_BLOCK))
    return size, digest.hexdigest()


def _size_and_tail(file: Path) -> tuple[int, str]:
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(0, size - TAIL))
        return size, stream.read(TAIL).hex()
