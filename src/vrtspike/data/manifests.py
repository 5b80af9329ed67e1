"""The manifests that the stages of the data hand to each other, read with care.

Like :mod:`vrtspike.data.raw.layouts` it stays within the standard library, because the workflow
reads manifests while it plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.errors import DataError
from vrtspike.files import json_digest, read_json


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


SURVEY = ManifestKind(
    "survey", 1, "survey", frozenset({"root", "layout", "spikes", "sequences", "excluded"})
)
INGESTED = ManifestKind(
    "ingest manifest",
    3,
    "ingest",
    frozenset(
        {"sequence", "split", "spikes", "blur_dir", "source_version", "recipe", "files", "rgb_size"}
        | {"spike_size", "spike_columns", "frames", "faults"}
    ),
)
ACCEPTED = ManifestKind("acceptance", 1, "accept", frozenset({"sequences", "excluded"}))
STORE = ManifestKind(
    "store manifest",
    3,
    "voxelize",
    frozenset(
        {"sequence", "split", "bins", "blur_dir", "frames", "spike_size", "store", "digest"}
        | {"gain", "histogram", "recipe", "files", "bytes"}
    ),
)
INGEST_SHARE = ManifestKind(
    "share of checked sequences", 1, "ingest", frozenset({"asked", "sequences"})
)
STORE_SHARE = ManifestKind("share of stores", 1, "voxelize", frozenset({"asked", "sequences"}))
DATASET = ManifestKind(
    "data set manifest",
    2,
    "statistics",
    frozenset({"dataset", "bins", "blur_dir", "excluded", "splits", "statistics", "digest"}),
)


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


def contents_digest(ingested: dict[str, Any]) -> str:
    """Digest of what an ingest manifest says of a sequence.

    When its files were written, and by which code they were checked, does not count.
    """
    told = {k: v for k, v in ingested.items() if k not in ("recipe", "source_version")}
    files = [[entry["path"], entry["size"], entry["digest"]] for entry in ingested["files"]]
    return json_digest({**told, "files": files})


def manifest_paths(folder: str | Path, sequences: Iterable[str]) -> list[Path]:
    """Where the manifests of sequences (``<split>/<name>``) lie below a folder.

    Programs make these paths themselves: thousands would not fit on a command line.
    """
    return [Path(folder) / f"{sequence}.json" for sequence in sequences]


def surveyed(survey: dict[str, Any]) -> list[str]:
    """The sequences of a survey, each as ``<split>/<name>``."""
    return [f"{found['split']}/{found['name']}" for found in survey["sequences"]]
