"""The check of the sequences of a share; each has a manifest of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.bundles import Entry, Made
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.manifests import INGEST_SHARE, INGESTED, contents_digest
from vrtspike.deblurring.data.raw.versions import source_version
from vrtspike.deblurring.data.recipes import ingest_recipe
from vrtspike.errors import DataError
from vrtspike.files import write_json
from vrtspike.manifests import read_manifest


@dataclass(frozen=True)
class Ingestion:
    """How sequences are checked, as a stage of :func:`vrtspike.deblurring.data.bundles.make_share`.

    Attributes:
        root: the data set's folder.
        folder: of the manifests, ``<split>/<name>.json``.
        blur_dir: folder of the blurry frames.
        layout: name of a layout, or ``auto``.
        spike_size: see :func:`vrtspike.deblurring.data.gate.ingest.ingest_sequence`.
    """

    root: str
    folder: Path
    blur_dir: str
    layout: str
    spike_size: tuple[int, int] | None = None
    recipe: str = field(init=False)

    kind = INGEST_SHARE

    def __post_init__(self) -> None:
        """Write down what the manifests are made with."""
        made_with = ingest_recipe(self.blur_dir, self.layout, self.spike_size)
        object.__setattr__(self, "recipe", made_with)

    def kept(self, name: str) -> Entry | None:
        """The entry of a sequence whose raw files and recipe are those of its manifest."""
        try:
            manifest = read_manifest(self._path(name), INGESTED)
            if manifest["recipe"] != self.recipe or manifest["source_version"] != self._now(name):
                return None
        except DataError:
            return None
        return self._entry(name, manifest)

    def make(self, name: str) -> Made:
        """Check a sequence completely and write its manifest, faults included.

        Raises:
            DataError: if it is not there, or changes meanwhile.
        """
        split, _, sequence = name.partition("/")
        version = self._now(name)
        manifest = ingest_sequence(
            self.root,
            split,
            sequence,
            blur_dir=self.blur_dir,
            source_version=version,
            recipe=self.recipe,
            spike_size=self.spike_size,
            layout=self.layout,
        )
        if self._now(name) != version:
            raise DataError(
                f"{name}: its files changed while they were checked; run again when they are all "
                "there"
            )
        write_json(self._path(name), manifest)
        return Made(self._entry(name, manifest), _line(name, manifest))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _now(self, name: str) -> str:
        """The version of a sequence's raw files."""
        split, _, sequence = name.partition("/")
        path = self._path(name)
        return source_version(self.root, sequence, split, path, self.blur_dir, self.layout)

    def _entry(self, name: str, manifest: dict[str, Any]) -> Entry:
        read = all(entry["digest"] for entry in manifest["files"])
        return {
            "contents": contents_digest(manifest),
            "bytes": self._path(name).stat().st_size,
            # A file that could not be read is looked at again: permissions have no date.
            "version": manifest["source_version"] if read else "",
        }


def _line(name: str, manifest: dict[str, Any]) -> str:
    faults, alignment = manifest["faults"], manifest["alignment"]
    spikes = "no spikes"
    if manifest["spikes"]:
        spikes = (
            f"exposure centre {alignment['median_center']} (expected {alignment['expected']}), "
            f"correlation {alignment['median_correlation']}"
        )
    line = f"{name}: {len(manifest['frames'])} frames, {spikes}, {len(faults)} faults"
    return "\n".join([line, *(f"  - {fault}" for fault in faults)])
