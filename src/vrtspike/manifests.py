"""Manifests that stages hand to each other, read with care.

It stays within the standard library, because the workflow reads manifests while it plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.errors import DataError
from vrtspike.files import read_json


@dataclass(frozen=True)
class ManifestKind:
    """One kind of manifest."""

    name: str
    schema: int
    """Version of its format; a manifest says which one it has."""
    stage: str
    """The stage of the workflow that writes it."""
    keys: frozenset[str]
    """What it must hold besides ``schema``."""


def read_contents(path: str | Path, wanted: str) -> Any:  # noqa: ANN401 - JSON values
    """What a JSON file holds.

    Args:
        path: the file.
        wanted: what it should be, for the message.

    Raises:
        DataError: if it cannot be read or is not JSON.
    """
    try:
        return read_json(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a {wanted}") from error
    except ValueError as error:
        raise DataError(f"{path}: no JSON ({error}); expected a {wanted}") from error


def read_manifest(path: str | Path, kind: ManifestKind) -> dict[str, Any]:
    """Read a manifest and see that it is one of this kind and version.

    Raises:
        DataError: if it is missing, not JSON, of another version, or lacks keys.
    """
    again = f"run {kind.stage} again"
    contents = read_contents(path, f"{kind.name}; {again}")
    found = contents.get("schema") if isinstance(contents, dict) else None
    if found != kind.schema:
        raise DataError(
            f"{path}: not the {kind.name} that this version reads: found schema {found}, expected "
            f"{kind.schema}; {again}"
        )
    missing = sorted(kind.keys - set(contents))
    if missing:
        raise DataError(f"{path}: a {kind.name} without {', '.join(missing)}; {again}")
    return dict(contents)
