"""Manifests that are damaged: they are made again, as if they were missing."""

from __future__ import annotations

from pathlib import Path

from vrtspike.errors import DataError
from vrtspike.manifests import ManifestKind, read_manifest


def is_damaged(path: str | Path, kind: ManifestKind) -> bool:
    """Whether a manifest is there and cannot be used; one that is missing is not damaged."""
    if not Path(path).exists():
        return False
    try:
        read_manifest(path, kind)
    except DataError:
        return True
    return False
