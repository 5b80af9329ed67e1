"""Manifests that are damaged: they are made again, as if they were missing."""

from __future__ import annotations

import os
from pathlib import Path

from vrtspike.data.manifests import ManifestKind, read_manifest
from vrtspike.errors import DataError

_END = b"}\n"
"""How every manifest ends that was written completely."""


def is_damaged(path: str | Path, kind: ManifestKind) -> bool:
    """Whether a manifest is there and cannot be used; one that is missing is not damaged."""
    if not Path(path).exists():
        return False
    try:
        read_manifest(path, kind)
    except DataError:
        return True
    return False


def is_cut(path: str | Path) -> bool:
    """Whether a file is there and does not end as a manifest does; cheap enough for thousands."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - speed
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - len(_END)))
            return stream.read() != _END
    except FileNotFoundError:
        return False
    except OSError:
        return True
