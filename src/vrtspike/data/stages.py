"""The sequences of a shard: current results are kept, the others are made in parallel.

The stages ``ingest`` and ``voxelize`` work like this: the check of raw files (:class:`IngestStage`)
and the building of stores (:class:`VoxelizeStage`). The result of each sequence is written as soon
as it is done, so a repeated job does only the remaining ones. The result contains its recipe: a
digest of the code and of the options. Two jobs on one shard are harmless, but do the same work
twice: results are renamed into place.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic

from vrtspike.data.checks.ingest import ingest_sequence
from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import (
    INGEST_SHARD,
    INGESTED,
    STORE,
    STORE_SHARD,
    IngestManifest,
    ShardEntry,
    ShardManifest,
    StoreManifest,
    ingest_digest,
    is_damaged,
)
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.data.store.writing import build_store
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import json_digest, write_json
from vrtspike.io.manifests import Manifest, ManifestKind, read_manifest
from vrtspike.staleness.source_digests import code_digests
from vrtspike.system.errors import DataError, RunError, UserError, list_faults
from vrtspike.system.processes import map_unordered


@dataclass(frozen=True)
class SequenceStage(ABC, Generic[Manifest]):
    """A stage: the work on each sequence. It can be pickled. Its parameter is that of a manifest.

    Attributes:
        folder: folder of the results, ``<split>/<name>.*``.
        kind: kind of the file of a shard.
        manifest_kind: kind of the manifest of a sequence.
        module: the file of this package that makes the results.
    """

    folder: Path

    kind: ClassVar[ManifestKind[ShardManifest]]
    manifest_kind: ClassVar[ManifestKind[Any]]
    module: ClassVar[str]

    @cached_property
    def recipe(self) -> str:
        """A digest of code and options; comments and the layout of code do not count."""
        code = code_digests(Path(__file__).parents[1] / self.module)
        lines = [f"{name} {digest}" for name, digest in code.items()]
        return json_digest({"code": lines, **self.result_options()})

    def manifest(self, name: str) -> Path:
        """Return the path of the manifest of a sequence."""
        return self.folder / f"{name}.json"

    def existing_entry(self, name: str) -> ShardEntry | None:
        """Return the entry of a sequence whose result is current; None if it has to be made."""
        try:
            manifest: Manifest = read_manifest(self.manifest(name), self.manifest_kind)
            is_current = self.inputs(name).items() <= manifest.items()
        except DataError:
            return None
        entry = self.entry(name, manifest)
        if not is_current or is_damaged(self.folder, name, entry):
            return None
        return entry

    def make_entry(self, name: str) -> tuple[ShardEntry, str]:
        """Make the result of a sequence.

        Returns:
            its entry, and a message for the log.
        """
        manifest = self.make(name)
        message = f"{name}: {len(manifest['frames'])} frames"
        for fault in manifest.get("faults", ()):
            message += f"\n  - {fault}"
        return self.entry(name, manifest), message

    @abstractmethod
    def result_options(self) -> dict[str, Any]:
        """Return the options that change results, as JSON values."""

    @abstractmethod
    def inputs(self, name: str) -> dict[str, str]:
        """Return entries of a manifest that identify the inputs of its sequence.

        Raises:
            DataError: if there are no inputs.
        """

    @abstractmethod
    def make(self, name: str) -> Manifest:
        """Make the result of a sequence and write its manifest.

        Returns:
            the manifest.

        Raises:
            UserError: if the inputs cannot be used.
        """

    @abstractmethod
    def entry(self, name: str, manifest: Manifest) -> ShardEntry:
        """Return a sequence's entry, with ``bytes`` and ``store`` as for :func:`is_damaged`."""


def process_shard(
    stage: SequenceStage[Any],
    names: Sequence[str],
    output: Path,
    processes: int,
    log: Callable[[str], None],
) -> None:
    """Bring the results of all sequences of a shard up to date, and write the shard's file.

    Args:
        stage: work on each sequence, and the kinds of its results.
        names: the sequences, each as ``<split>/<name>``.
        output: the shard's file: an entry for each sequence.
        processes: maximum number at the same time.
        log: called with each line for the log.

    Raises:
        DataError: with every sequence whose result cannot be made; all others are made.
        RunError: if a process is killed; at once.
        OSError: if a result cannot be written, as on a full disk; at once.
    """
    entries = {name: stage.existing_entry(name) for name in names}
    due = [name for name, entry in entries.items() if entry is None]
    # Progress bars show the last "[n/of]" of a log.
    log(f"[0/{len(due)}] shard {output.stem}: {len(names)} sequences, {len(due)} of them to do")
    failures: list[str] = []
    with contextlib.closing(map_unordered(stage.make_entry, due, processes)) as outcomes:
        for done, (name, outcome) in enumerate(outcomes, start=1):
            if not isinstance(outcome, BaseException):
                entries[name], message = outcome
            elif isinstance(outcome, RunError) or not isinstance(outcome, UserError):
                raise outcome  # every other sequence would fail, too
            else:
                reason = str(outcome).removeprefix(f"{name}: ")
                message = f"{name}: {reason}"
                failures.append(message)
            log(f"[{done}/{len(due)}] {message}")
    if failures:
        raise DataError(
            list_faults(
                f"{len(failures)} of {len(names)} sequences could not be done, the others are",
                failures,
                "Fix these and run again: what is done stays done.",
            )
        )
    write_json(output, {"schema": stage.kind.schema, "sequences": entries})


@dataclass(frozen=True)
class IngestStage(SequenceStage[IngestManifest]):
    """The check of sequences, a stage of :func:`process_shard`.

    Attributes:
        raw_folder: folder of the raw files.
    """

    raw_folder: RawFolder

    kind = INGEST_SHARD
    manifest_kind = INGESTED
    module = "data/checks/ingest.py"

    def result_options(self) -> dict[str, Any]:
        """Return the options on raw files, without their places."""
        return {
            "blur_dir": self.raw_folder.blur_dir,
            "layout": self.raw_folder.layout,
            "spike_size": self.raw_folder.spike_size,
            "spike_root": self.raw_folder.spike_root,
        }

    def inputs(self, name: str) -> dict[str, str]:
        """Return the recipe, and the version of the raw files."""
        files = find_sequence(self.raw_folder, name)
        version = source_version(self.raw_folder.root, files, self.manifest(name))
        return {"recipe": self.recipe, "source_version": version}

    def make(self, name: str) -> IngestManifest:
        """Check a sequence completely and write its manifest, faults included.

        Raises:
            DataError: if it is missing, or changes meanwhile.
        """
        inputs = self.inputs(name)
        files = find_sequence(self.raw_folder, name)
        contents = ingest_sequence(self.raw_folder.root, files, self.raw_folder.spike_size)
        if self.inputs(name) != inputs:
            raise DataError(
                f"{name}: its files changed while they were checked; run again when they are all "
                "there"
            )
        manifest: IngestManifest = {
            **contents,
            "recipe": inputs["recipe"],
            "source_version": inputs["source_version"],
        }
        write_json(self.manifest(name), manifest)
        return manifest

    def entry(self, name: str, manifest: IngestManifest) -> ShardEntry:
        """Return the digest of a check, and the size of its manifest."""
        # Files that could not be read are checked again: chmod leaves the modification time
        # unchanged.
        are_read = all(entry["digest"] for entry in manifest["files"])
        return {
            "contents": ingest_digest(manifest),
            "bytes": self.manifest(name).stat().st_size if are_read else 0,
        }


@dataclass(frozen=True)
class VoxelizeStage(SequenceStage[StoreManifest]):
    """The building of stores, a stage of :func:`process_shard`.

    Attributes:
        root: the data set's folder.
        ingested: folder of the ingest manifests, ``<split>/<name>.json``.
        options: options of the stores.
    """

    root: str
    ingested: Path
    options: StoreOptions

    kind = STORE_SHARD
    manifest_kind = STORE
    module = "data/store/writing.py"

    def result_options(self) -> dict[str, Any]:
        """Return the options of the stores."""
        return self.options.model_dump()

    def inputs(self, name: str) -> dict[str, str]:
        """Return the recipe of all stores, and the result of the check of a sequence."""
        ingested = read_manifest(self.ingested / f"{name}.json", INGESTED)
        return {"recipe": json_digest([self.recipe, ingest_digest(ingested)])}

    def make(self, name: str) -> StoreManifest:
        """Build the store of a sequence.

        Raises:
            DataError: see :func:`vrtspike.data.store.writing.build_store`.
        """
        return build_store(
            self.root,
            self.ingested / f"{name}.json",
            self.options,
            self.manifest(name),
            **self.inputs(name),
        )

    def entry(self, name: str, manifest: StoreManifest) -> ShardEntry:
        """Return the digest of a store, and its size."""
        return {
            "digest": manifest["digest"],
            "bytes": self.manifest(name).stat().st_size,
            "store": [manifest["files"], manifest["bytes"]],
        }
