"""The sequences of a shard: what is current is kept, the rest is made in parallel.

Both stages that go through all sequences, the check of raw files (:class:`Ingestion`) and the
building of stores (:class:`Building`), work like this. The result of each sequence is written as
soon as it is done, so a job that is repeated does only what is left. It contains its recipe, a
digest of the code and the options that it was made with. Two jobs on one shard would do the same
work twice, but no harm: results are renamed into place.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from vrtspike.data.gate.ingest import ingest_sequence
from vrtspike.data.manifests import (
    INGEST_SHARD,
    INGESTED,
    STORE,
    STORE_SHARD,
    contents_digest,
    is_damaged,
)
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.data.store.writing import build_store
from vrtspike.io.files import json_digest, write_json
from vrtspike.io.manifests import ManifestKind, read_manifest
from vrtspike.runs.provenance import code_digests
from vrtspike.system.errors import DataError, RunError, UserError, list_faults
from vrtspike.system.processes import for_each

Entry = dict[str, Any]
"""The entry of a sequence in the shard's file, as JSON values."""

_PLACES = ("root", "folder", "ingested")
"""Fields of a stage that say where files lie, and change no result."""


@dataclass(frozen=True)
class SequenceStage(ABC):
    """What is done to each sequence; it can be pickled.

    Attributes:
        root: the data set's folder.
        folder: of the results, ``<split>/<name>.*``.
        kind: of the file of a shard.
        manifest_kind: of the manifest of a sequence.
        module: the file of this package that makes the results.
    """

    root: str
    folder: Path

    kind: ClassVar[ManifestKind]
    manifest_kind: ClassVar[ManifestKind]
    module: ClassVar[str]

    @cached_property
    def recipe(self) -> str:
        """A digest of code and options; comments and the layout of code do not count."""
        code = code_digests(Path(__file__).parents[1] / self.module)
        options = {key: value for key, value in asdict(self).items() if key not in _PLACES}
        return json_digest({"code": [" ".join(each) for each in code.items()], **options})

    def manifest(self, name: str) -> Path:
        """Where the manifest of a sequence lies."""
        return self.folder / f"{name}.json"

    def existing_entry(self, name: str) -> Entry | None:
        """The entry of a sequence whose result still holds; None where it has to be made."""
        try:
            manifest = read_manifest(self.manifest(name), self.manifest_kind)
            is_current = self.made_of(name).items() <= manifest.items()
        except DataError:
            return None
        entry = self.entry(name, manifest)
        return entry if is_current and not is_damaged(self.folder, name, entry) else None

    def make_entry(self, name: str) -> tuple[Entry, str]:
        """Make the result of a sequence: its entry, and a line for the log."""
        manifest = self.make(name)
        faults = (f"\n  - {fault}" for fault in manifest.get("faults", ()))
        line = "".join([f"{name}: {len(manifest['frames'])} frames", *faults])
        return self.entry(name, manifest), line

    @abstractmethod
    def made_of(self, name: str) -> dict[str, str]:
        """Entries of a manifest that change with what its sequence is made of.

        Raises:
            DataError: if there is nothing to make it of.
        """

    @abstractmethod
    def make(self, name: str) -> dict[str, Any]:
        """Make the result of a sequence and write its manifest.

        Returns:
            the manifest.

        Raises:
            UserError: if that cannot be.
        """

    @abstractmethod
    def entry(self, name: str, manifest: dict[str, Any]) -> Entry:
        """The entry of a sequence; ``bytes`` and ``store`` as :func:`is_damaged` compares them."""


def make_shard(
    stage: SequenceStage,
    names: Sequence[str],
    output: Path,
    processes: int,
    say: Callable[[str], None],
) -> None:
    """Bring the results of all sequences of a shard up to date, and write the shard's file.

    Args:
        stage: what is done.
        names: the sequences, each as ``<split>/<name>``.
        output: the shard's file: an entry for each sequence.
        processes: how many may work at the same time.
        say: takes lines for the log.

    Raises:
        DataError: with every sequence whose result cannot be made; all others are made.
        RunError: if a process is killed; at once.
        OSError: if a result cannot be written, as on a full disk; at once.
    """
    entries = {name: stage.existing_entry(name) for name in names}
    due = [name for name, entry in entries.items() if entry is None]
    # Progress bars show the last "[n/of]" of a log.
    say(f"[0/{len(due)}] shard {output.stem}: {len(names)} sequences, {len(due)} of them to do")
    failures: list[str] = []
    with contextlib.closing(for_each(stage.make_entry, due, processes)) as outcomes:
        for done, (name, outcome) in enumerate(outcomes, start=1):
            if not isinstance(outcome, BaseException):
                entries[name], line = outcome
            elif isinstance(outcome, RunError) or not isinstance(outcome, UserError):
                raise outcome  # it would meet every other sequence, too
            else:
                line = f"{name}: {str(outcome).removeprefix(f'{name}: ')}"
                failures.append(line)
            say(f"[{done}/{len(due)}] {line}")
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
class Ingestion(SequenceStage):
    """How sequences are checked, as a stage of :func:`make_shard`.

    Attributes:
        blur_dir: folder of the blurry frames.
        layout: name of a layout, or ``auto``.
        spike_root: where spikes lie under a root of their own.
        spike_size: see :func:`vrtspike.data.gate.ingest.ingest_sequence`.
    """

    blur_dir: str
    layout: str
    spike_size: tuple[int, int] | None = None
    spike_root: str | None = None

    kind, manifest_kind = INGEST_SHARD, INGESTED
    module = "data/gate/ingest.py"

    def made_of(self, name: str) -> dict[str, str]:
        """The recipe, and the version of the raw files."""
        version = source_version(self.root, self._files(name), self.manifest(name))
        return {"recipe": self.recipe, "source_version": version}

    def make(self, name: str) -> dict[str, Any]:
        """Check a sequence completely and write its manifest, faults included.

        Raises:
            DataError: if it is not there, or changes meanwhile.
        """
        made_of = self.made_of(name)
        found = ingest_sequence(self.root, self._files(name), self.spike_size)
        if self.made_of(name) != made_of:
            raise DataError(
                f"{name}: its files changed while they were checked; run again when they are all "
                "there"
            )
        manifest = {**found, **made_of}
        write_json(self.manifest(name), manifest)
        return manifest

    def _files(self, name: str) -> SequenceFiles:
        return find_sequence(self.root, name, self.blur_dir, self.layout, self.spike_root)

    def entry(self, name: str, manifest: dict[str, Any]) -> Entry:
        """What was found."""
        # A file that could not be read is looked at again: permissions have no date.
        are_read = all(entry["digest"] for entry in manifest["files"])
        return {
            "contents": contents_digest(manifest),
            "bytes": self.manifest(name).stat().st_size if are_read else 0,
        }


@dataclass(frozen=True)
class Building(SequenceStage):
    """How stores are built, as a stage of :func:`make_shard`.

    Attributes:
        ingested: folder of the ingest manifests, ``<split>/<name>.json``.
        bins: K.
        context: see :func:`vrtspike.data.store.writing.build_store`.
    """

    ingested: Path
    bins: int
    context: int = 0

    kind, manifest_kind = STORE_SHARD, STORE
    module = "data/store/writing.py"

    def made_of(self, name: str) -> dict[str, str]:
        """The recipe of all stores, and what the check of a sequence found."""
        ingested = read_manifest(self.ingested / f"{name}.json", INGESTED)
        return {"recipe": json_digest([self.recipe, contents_digest(ingested)])}

    def make(self, name: str) -> dict[str, Any]:
        """Build the store of a sequence.

        Raises:
            DataError: see :func:`vrtspike.data.store.writing.build_store`.
        """
        return build_store(
            self.root,
            self.ingested / f"{name}.json",
            self.bins,
            self.manifest(name),
            context=self.context,
            **self.made_of(name),
        )

    def entry(self, name: str, manifest: dict[str, Any]) -> Entry:
        """The digest of a store, and its size."""
        return {
            "digest": manifest["digest"],
            "bytes": self.manifest(name).stat().st_size,
            "store": [manifest["files"], manifest["bytes"]],
        }
