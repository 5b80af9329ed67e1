"""The public data sets that the package reads (``public_sets.toml``): their facts and origins."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

_TABLE = Path(__file__).with_name("public_sets.toml")
NOT_STATED = "not stated"
ERA5 = "era5"
"""Name of the layout of ERA5 downloads, which :mod:`vrtspike.sst` reads."""


class PublicSet(BaseModel):
    """A public data set.

    Attributes:
        name: name of the set.
        layouts: names of DATA.LAYOUT in which it occurs, or :data:`ERA5`.
        source: public address of its page.
        size: size of the download.
        licence: licence as its page states it.
        checksum: published digest of the download.
        folders: pattern of the files after unpacking.
        has_spikes: true if spikes belong to it.
        sequences: published number of sequences, by split; empty if not stated.
        frames: published number of blurry frames, by split; empty if not stated.
        origins: page that states each of the facts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1)
    layouts: list[str] = Field(min_length=1)
    source: str = Field(pattern=r"^https://")
    size: str = NOT_STATED
    licence: str = NOT_STATED
    checksum: str = NOT_STATED
    folders: str = Field(min_length=1)
    has_spikes: bool = False
    sequences: dict[str, int] = {}
    frames: dict[str, int] = {}
    origins: dict[str, str]

    @property
    def counts(self) -> str:
        """Published numbers of sequences and frames of each split."""
        if not self.sequences:
            return NOT_STATED
        parts = []
        for split, number in self.sequences.items():
            frames = f", {self.frames[split]} frames" if split in self.frames else ""
            parts.append(f"{split}: {number} sequences{frames}")
        return "; ".join(parts)


def read_public_sets() -> list[PublicSet]:
    """Read the table of public data sets."""
    document = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return [PublicSet.model_validate(entry) for entry in document["sets"]]


def describe_set(public: PublicSet) -> list[str]:
    """Describe a public data set: a line for its name and one for each of its facts."""
    facts = {
        "source": public.source,
        "size": public.size,
        "licence": public.licence,
        "checksum": public.checksum,
        "layout": " or ".join(public.layouts),
        "folders": public.folders,
        "spikes": "yes" if public.has_spikes else "no",
        "contents": public.counts,
    }
    pages: dict[str, list[str]] = {}
    for fact, page in public.origins.items():
        pages.setdefault(page, []).append(fact)
    lines = [public.name]
    lines += [f"  {name:<10}{text}" for name, text in facts.items()]
    lines += [f"  {'seen':<10}{', '.join(names)}: {page}" for page, names in pages.items()]
    return lines
