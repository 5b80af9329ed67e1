"""Manifests of stages, and detection of changes of the files that they list.

This module imports no large packages, because Snakemake reads manifests for every plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar, cast

from vrtspike.io.files import file_digest, file_stamp, json_digest, read_json
from vrtspike.system.errors import DataError

Manifest = TypeVar("Manifest", bound=Mapping[str, Any])
"""Type of the contents of a manifest: a ``TypedDict``."""


class FileEntry(TypedDict):
    """A file in a manifest; ``digest`` is empty if it cannot be read."""

    path: str
    size: int
    mtime_ns: int
    digest: str


@dataclass(frozen=True)
class ManifestKind(Generic[Manifest]):
    """A kind of manifest; its parameter is the type of the contents.

    Attributes:
        name: name in messages.
        schema: version of its format.
        stage: the stage that writes it.
    """

    name: str
    schema: int
    stage: str


SEAL = "seal"
"""Entry of a manifest with the digest of all others."""


def sealed(contents: Manifest) -> Manifest:
    """Add the digest of all entries, by which :func:`read_manifest` notices changes."""
    return cast("Manifest", {**contents, SEAL: _digest_of_entries(contents)})


def _digest_of_entries(contents: Mapping[str, Any]) -> str:
    return json_digest({key: value for key, value in contents.items() if key != SEAL})


def has_broken_seal(contents: Mapping[str, Any]) -> bool:
    """Return whether an entry differs from its seal; manifests without one are accepted."""
    return SEAL in contents and contents[SEAL] != _digest_of_entries(contents)


def read_manifest(path: str | Path, kind: ManifestKind[Manifest]) -> Manifest:
    """Read a manifest and check its kind, version and seal.

    Raises:
        DataError: if it is missing, not JSON, of another version, or changed since it was sealed.
    """
    remedy = f"run {kind.stage} again"
    try:
        contents = read_json(path)
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path}: {reason}; expected a {kind.name}; {remedy}") from error
    except ValueError as error:
        raise DataError(f"{path}: no JSON ({error}); expected a {kind.name}; {remedy}") from error
    schema = contents.get("schema") if isinstance(contents, dict) else None
    if schema != kind.schema:
        raise DataError(
            f"{path}: not the {kind.name} that this version reads: found schema {schema}, expected "
            f"{kind.schema}; {remedy}"
        )
    if has_broken_seal(contents):
        raise DataError(
            f"{path}: the entries are not those that {kind.stage} wrote: the file was edited or "
            f"damaged; delete it and {remedy}"
        )
    return cast("Manifest", dict(contents))


def size_and_date(root: Path, path: str) -> tuple[int, int]:
    """Return size and modification time of a file; -1 for a missing one, which its job reports."""
    # A string, because creating Paths of all raw files would slow down planning.
    stamp = file_stamp(f"{root}/{path}")
    if stamp is None:
        return (-1, -1)
    return stamp[1:]


def file_entry(root: Path, path: str) -> FileEntry:
    """Return the entry of a file in a manifest."""
    size, date = size_and_date(root, path)
    return {"path": path, "size": size, "mtime_ns": date, "digest": _digest(root / path)}


def _digest(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError:
        return ""


def contents_digest(root: Path, files: Mapping[str, FileEntry], path: str) -> str:
    """Return the digest of a file, from the manifest if size and time are unchanged, else computed.

    Args:
        root: the folder that paths are relative to.
        files: entries of the manifest by path.
        path: path of the file relative to ``root``.

    Returns:
        SHA-256; empty if the file cannot be read.
    """
    entry = files.get(path)
    if entry is not None and (entry["size"], entry["mtime_ns"]) == size_and_date(root, path):
        return entry["digest"]
    return _digest(root / path)


def is_unchanged(root: Path, files: Mapping[str, FileEntry], path: str) -> bool:
    """Return whether a file is unchanged since its manifest, by its time or else its contents.

    Args:
        root: the folder that paths are relative to.
        files: entries of the manifest by path.
        path: path of the file relative to ``root``.
    """
    entry = files.get(path)
    if entry is None or entry["size"] != size_and_date(root, path)[0]:
        return False
    if entry["digest"]:
        return contents_digest(root, files, path) == entry["digest"]
    # The file is read again, because permissions may have changed without a change of the
    # modification time.
    return _digest(root / path) == entry["digest"]
