"""Sweeps: files with a preset and values of some of its keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.config.checking import validate
from vrtspike.config.documents import document_of, nested, read_yaml
from vrtspike.config.fields import Section, key
from vrtspike.config.loading import override_settings
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
    """Presets that differ in the values of some keys.

    Attributes:
        place: the file.
        base: name of the preset whose keys are changed.
        members: changed values by name. A name contains a digest of its values, so that it does not
            depend on the other members.
    """

    place: str
    base: str
    members: Mapping[str, Values]

    def settings(self, member: str, base: RunSettings) -> RunSettings:
        """The settings of a member.

        Args:
            member: its name.
            base: the settings of the base preset.

        Raises:
            ConfigError: if a key or a value is wrong.
        """
        above = document_of(nested(self.members[member]), self.place)
        return override_settings(base, above, f"preset {self.base}")


def read_sweep(path: Path) -> Sweep:
    """Read ``config/sweeps/<name>.yaml``.

    Raises:
        ConfigError: if it is not a sweep, is empty, or has the same values twice.
    """
    given = validate(_SweepFile, read_yaml(path), _ADVICE)
    members: dict[str, Values] = {}
    for values in _combinations(given):
        name = f"{path.stem}-{json_digest(values)[:6]}"
        if name in members:
            raise ConfigError(f"{path}: found {values} twice; remove one")
        members[name] = values
    if not members:
        raise ConfigError(f"{path}: found no values. {_ADVICE}")
    return Sweep(str(path), given.BASE, members)


def _combinations(given: _SweepFile) -> Iterator[Values]:
    """The values of all members, those of the grid first."""
    if given.GRID:
        for values in itertools.product(*given.GRID.values()):
            yield dict(zip(given.GRID, values, strict=True))
    yield from (values for values in given.LIST if values)
