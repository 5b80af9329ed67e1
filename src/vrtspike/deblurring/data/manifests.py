"""The manifests that the stages of the deblurring's data hand to each other.

Like :mod:`vrtspike.deblurring.data.raw.layouts` it stays within the standard library, because the
workflow reads manifests while it plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vrtspike.files import json_digest
from vrtspike.manifests import ManifestKind

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
