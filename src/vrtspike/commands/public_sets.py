"""The public data sets that the package reads (``public_sets.toml``): their facts and origins."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.system.errors import ConfigError

SETS = Path(__file__).with_name("public_sets.toml")
NOT_STATED = "not stated"
ERA5 = "era5"
"""Name of the layout of ERA5 downloads, which :mod:`vrtspike.sst` reads."""
FACTS = ("source", "size", "licence", "checksum", "folders", "sequences", "frames")
"""Fields that are facts of a public page."""


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
        origins: page on which each of the facts was seen.
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

    @model_validator(mode="after")
    def _require_known_layouts(self) -> Self:
        """Refuse layouts that the package cannot read."""
        for layout in self.layouts:
            if layout != ERA5 and layout not in LAYOUTS:
                names = ", ".join([*LAYOUTS, ERA5])
                raise ValueError(f"layouts: found {layout!r}, expected one of {names}")
        return self

    @model_validator(mode="after")
    def _require_origins(self) -> Self:
        """Refuse facts without the page on which they were seen, and pages without a fact."""
        stated = {fact for fact in FACTS if getattr(self, fact) not in (NOT_STATED, {})}
        for fact in sorted(stated - set(self.origins)):
            raise ValueError(f"origins: {fact} is missing; name the page that states it")
        for fact in sorted(set(self.origins) - stated):
            raise ValueError(f"origins: found {fact!r}, which is no stated fact; remove it")
        if not set(self.frames) <= set(self.sequences):
            raise ValueError("frames: found other splits than in sequences")
        return self


class _File(BaseModel):
    """The contents of the file."""

    model_config = ConfigDict(extra="forbid")

    sets: list[PublicSet] = Field(min_length=1)


def read_public_sets(path: Path = SETS) -> list[PublicSet]:
    """Read the table of public data sets.

    Raises:
        ConfigError: naming the file, the set, its field, what was found and what was expected.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        sets = _File.model_validate(document).sets
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: no TOML ({error}); correct it") from error
    except ValidationError as error:
        detail = error.errors()[0]
        place = ".".join(map(str, detail["loc"]))
        raise ConfigError(f"{path}: {place}: {detail['msg']}; correct the entry") from error
    names = [public_set.name for public_set in sets]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"{path}: found {name} more than once, expected one entry; merge them"
            )
    return sets
