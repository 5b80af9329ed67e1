"""Damaged results of shards, and versions of input folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vrtspike.data.manifests import Shard, is_damaged
from vrtspike.data.raw.versions import folder_version
from vrtspike.io.manifests import ManifestKind, read_manifest
from vrtspike.system.errors import DataError

MISSING = "missing"
"""Version used if inputs are missing: the job will hit the same error and report it."""


def shard_damage(results: Path, folder: str, kind: ManifestKind[Shard]) -> Callable[[Any], str]:
    """Return a function that describes the damaged sequences of the shard of a job.

    These are among the sequences that the file of the shard lists. A sequence whose raw files could
    not be read counts as damaged.

    Args:
        results: folder of all results.
        folder: results of ``ingest`` or ``voxelize`` below it, with wildcards.
        kind: kind of the shard's file.

    Returns:
        a function from the wildcards of the job to the number of damaged sequences and the name of
        the first, as text; empty if there are none.
    """

    def damage(wildcards: Any) -> str:  # noqa: ANN401 - Snakemake's
        data_folder = results / folder.format(**wildcards)
        try:
            shard = read_manifest(data_folder / "shards" / f"{wildcards['shard']}.json", kind)
        except DataError:
            return ""
        entries = sorted(shard["sequences"].items())
        damaged = [name for name, entry in entries if is_damaged(data_folder, name, entry)]
        if not damaged:
            return ""
        return f"results missing or damaged: {len(damaged)}, the first {damaged[0]}"

    return damage


def inputs_version(title: str, *folders: str | None) -> str:
    """Return a line that changes with the files below folders; touching a file changes nothing.

    Args:
        title: start of the line.
        folders: paths of the folders; None is skipped.
    """
    paths = [Path(folder) for folder in folders if folder]
    version = folder_version(*paths)
    if not version:
        return MISSING
    return f"{title}: {version[:12]}"
