"""Sweeps: a file that names a preset, and the values of some of its keys that are tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.config.checking import validate
from vrtspike.config.documents import document_of_values, nested, read_yaml
from vrtspike.config.fields import Section, key
from vrtspike.config.loading import override_with_document
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError
from vrtspike.io.files import json_digest

_ADVICE = (
    "A sweep has BASE, the name of a preset, and GRID (lists of values by key, such as "
    "TRAIN.OPTIM.LR: [1.0e-3, 2.0e-3]), LIST (mappings of such keys to values), or both."
)

Values = Mapping[str, Any]
"""Values by key, such as ``{"TRAIN.OPTIM.LR": 0.001}``."""


class _SweepFile(Section):
    BASE: str = key("Name of the preset whose keys are changed")
    GRID: dict[str, list[Any]] = key("Values of each key; all combinations are tried", {})
    LIST: list[dict[str, Any]] = key("Combinations that are tried, as they stand", [])


@dataclass(frozen=True)
class Sweep:
    """A family of presets that differ in some keys.

    Attributes:
        place: its file.
        base: the preset that they are derived from.
        members: what each changes, by the name of the derived preset. Names hold a digest of the
            values, so that a member stays what it is when others come or go.
    """

    place: str
    base: str
    members: Mapping[str, Values]

    def settings(self, member: str, base: RunSettings) -> RunSettings:
        """The settings of a derived preset.

        Args:
            member: its name.
            base: the settings of the preset that it is derived from.

        Raises:
            ConfigError: if a key or a value is wrong.
        """
        above = document_of_values(nested(self.members[member]), self.place)
        return override_with_document(base, above, f"preset {self.base}")


def read_sweep(path: Path) -> Sweep:
    """Read ``config/sweeps/<name>.yaml``.

    Raises:
        ConfigError: if it is no sweep, tries nothing, or tries the same twice.
    """
    given = validate(_SweepFile, read_yaml(path), _ADVICE)
    members: dict[str, Values] = {}
    for values in _combinations(given):
        name = f"{path.stem}-{json_digest(values)[:6]}"
        if name in members:
            raise ConfigError(f"{path}: {values} is tried twice; leave one out")
        members[name] = values
    if not members:
        raise ConfigError(f"{path}: nothing is tried. {_ADVICE}")
    return Sweep(str(path), given.BASE, members)


def _combinations(given: _SweepFile) -> Iterator[Values]:
    """What of the grid and of the list is tried, in the order of the file."""
    if given.GRID:
        for values in itertools.product(*given.GRID.values()):
            yield dict(zip(given.GRID, values, strict=True))
    yield from (values for values in given.LIST if values)
