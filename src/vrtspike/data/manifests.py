"""The manifests that the stages of the deblurring's data hand to each other.

Like :mod:`vrtspike.data.raw.layouts` it stays within the standard library, because the
workflow reads manifests while it plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vrtspike.data.exposure import Exposure
from vrtspike.io.files import folder_size, json_digest
from vrtspike.io.manifests import ManifestKind, size_and_date

SURVEY = ManifestKind("survey", 1, "survey")
INGESTED = ManifestKind("ingest manifest", 6, "ingest")
ACCEPTED = ManifestKind("acceptance", 2, "accept")
STORE = ManifestKind("store manifest", 4, "voxelize")
INGEST_SHARD = ManifestKind("shard of checked sequences", 1, "ingest")
STORE_SHARD = ManifestKind("shard of stores", 1, "voxelize")
DATASET = ManifestKind("data set manifest", 4, "statistics")


def recorded_exposure(spikes: dict[str, Any]) -> Exposure:
    """Return the exposure of a frame in its spike file, as an ingest manifest has it."""
    start = spikes["start"]
    return Exposure(start, start + spikes["steps"], start + spikes["sharp"])


def contents_digest(ingested: dict[str, Any]) -> str:
    """Return the digest of the contents of an ingest manifest.

    The dates of its files and the code of the check do not count.
    """
    contents = {k: v for k, v in ingested.items() if k not in ("recipe", "source_version")}
    files = [[entry["path"], entry["size"], entry["digest"]] for entry in ingested["files"]]
    return json_digest({**contents, "files": files})


def is_damaged(folder: Path, sequence: str, entry: dict[str, Any]) -> bool:
    """Return whether the result of a sequence has another size than in the file of its shard.

    Args:
        folder: folder of the results of ``ingest`` or ``voxelize``.
        sequence: its name, ``<split>/<name>``.
        entry: ``bytes`` of its manifest; ``store``, number and bytes of the files of its store.
    """
    size, _ = size_and_date(folder, f"{sequence}.json")
    if size != entry["bytes"]:
        return True
    store = entry.get("store")
    return store is not None and list(folder_size(folder / f"{sequence}.zarr")) != store


def manifest_paths(folder: str | Path, sequences: Iterable[str]) -> list[Path]:
    """Return paths of the manifests of sequences (``<split>/<name>``) below a folder.

    Programs make these paths themselves: thousands would not fit on a command line.
    """
    return [Path(folder) / f"{sequence}.json" for sequence in sequences]


def surveyed(survey: dict[str, Any]) -> list[str]:
    """Return the sequences of a survey, each as ``<split>/<name>``."""
    return [f"{entry['split']}/{entry['name']}" for entry in survey["sequences"]]
