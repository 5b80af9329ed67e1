"""The stores of the sequences of a share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.bundles import Entry, Made
from vrtspike.deblurring.data.manifests import INGESTED, STORE, STORE_SHARE, contents_digest
from vrtspike.deblurring.data.recipes import store_recipe
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.errors import DataError
from vrtspike.files import folder_size, json_digest
from vrtspike.manifests import read_manifest


@dataclass(frozen=True)
class Building:
    """How stores are built, as a stage of :func:`vrtspike.deblurring.data.bundles.make_share`.

    Attributes:
        root: the data set's folder.
        ingested: folder of the ingest manifests, ``<split>/<name>.json``.
        bins: K.
        folder: of the stores and their manifests.
    """

    root: str
    ingested: Path
    bins: int
    folder: Path
    recipe: str = field(init=False)

    kind = STORE_SHARE

    def __post_init__(self) -> None:
        """Write down what all stores are made with."""
        object.__setattr__(self, "recipe", store_recipe(self.bins))

    def kept(self, name: str) -> Entry | None:
        """The entry of a sequence whose store is complete and made of today's raw files."""
        try:
            manifest = read_manifest(self._path(name), STORE)
            ingested = self._ingested(name)
            if manifest["recipe"] != self._recipe(ingested):
                return None
        except DataError:
            return None
        whole = manifest["files"], manifest["bytes"]
        if folder_size(self._path(name).with_suffix(".zarr")) != whole:
            return None
        return self._entry(name, manifest, ingested)

    def make(self, name: str) -> Made:
        """Build the store of a sequence.

        Raises:
            DataError: see :func:`vrtspike.deblurring.data.store.build.build_store`.
        """
        ingested = self._ingested(name)
        made = build_store(
            self.root,
            self.ingested / f"{name}.json",
            self.bins,
            self._path(name),
            recipe=self._recipe(ingested),
        )
        line = f"{name}: {len(made['frames'])} frames, {self.bins} bins, digest "
        return Made(self._entry(name, made, ingested), line + made["digest"][:12])

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _ingested(self, name: str) -> str:
        """Digest of what the check of a sequence found."""
        return contents_digest(read_manifest(self.ingested / f"{name}.json", INGESTED))

    def _recipe(self, ingested: str) -> str:
        return json_digest([self.recipe, ingested])

    def _entry(self, name: str, manifest: dict[str, Any], ingested: str) -> Entry:
        return {
            "ingested": ingested,
            "digest": manifest["digest"],
            "bytes": self._path(name).stat().st_size,
            "store": [manifest["files"], manifest["bytes"]],
        }
