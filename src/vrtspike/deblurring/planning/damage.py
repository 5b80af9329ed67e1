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
"""Version of missing inputs: the job meets the same error and reports it."""


def damaged_sequences(folder: Path, shard: str, kind: ManifestKind[Shard]) -> str:
    """Describe the damaged sequences among those that the file of a shard lists.

    A sequence whose raw files could not be read counts as damaged.

    Args:
        folder: results of ``ingest`` or ``voxelize``.
        shard: name of the shard.
        kind: kind of the shard's file.

    Returns:
        The number of damaged sequences and the name of the first; empty if there are none.
    """
    try:
        entries = read_manifest(folder / "shards" / f"{shard}.json", kind)["sequences"]
    except DataError:
        return ""
    damaged = [name for name, entry in sorted(entries.items()) if is_damaged(folder, name, entry)]
    if not damaged:
        return ""
    return f"results missing or damaged: {len(damaged)}, the first {damaged[0]}"


def shard_damage(results: Path, folder: str, kind: ManifestKind[Shard]) -> Callable[[Any], str]:
    """Return a function for :func:`damaged_sequences` of the shard of a job, from its wildcards.

    Args:
        results: folder of all results.
        folder: results of ``ingest`` or ``voxelize`` below it, with wildcards.
        kind: kind of the shard's file.
    """

    def damage(wildcards: Any) -> str:  # noqa: ANN401 - Snakemake's
        return damaged_sequences(results / folder.format(**wildcards), wildcards["shard"], kind)

    return damage


def inputs_version(title: str, *folders: str | None) -> str:
    """Return a line that changes with the files below folders; touching a file changes nothing.

    Args:
        title: beginning of the line.
        folders: paths of the folders; None is skipped.
    """
    paths = [Path(folder) for folder in folders if folder]
    version = folder_version(*paths)
    if not version:
        return MISSING
    return f"{title}: {version[:12]}"
