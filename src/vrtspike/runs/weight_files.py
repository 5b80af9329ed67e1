"""Digests of the files of weights that decide what a training makes of its settings and its data.

Their contents are part of a run's identity, their names are not: weights that were moved are the
same ones, other weights under the same name are others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vrtspike.errors import RunError
from vrtspike.files import file_digest
from vrtspike.pretrained import PUBLISHED, require_weights
from vrtspike.runs.names import WEIGHTS


def weight_digests(files: Mapping[str, Path]) -> dict[str, str]:
    """SHA-256 of each file, by its key; a published one's is known by its name.

    (Whoever loads a published file compares its contents with that.)

    Raises:
        RunError: naming the key, if a file is not there.
        DataError: if a published one is not there.
    """
    return {key: _digest(key, path) for key, path in files.items()}


def _digest(key: str, path: Path) -> str:
    if path.name in PUBLISHED:
        require_weights(path)
        return PUBLISHED[path.name]
    try:
        return file_digest(path)
    except OSError as error:
        advice = "give an existing file, or remove the key"
        if path.name == WEIGHTS:
            advice = "train that preset first, or name its result folder"
        raise RunError(f"{key}: {path}: {error.strerror or error}; {advice}") from error
