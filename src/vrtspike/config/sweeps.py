"""Sweeps: files with a preset and values of some of its keys."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from vrtspike.config.checking import validate
from vrtspike.config.documents import document_of, nested, read_yaml
from vrtspike.config.fields import Section, key
from vrtspike.config.loading import override_settings
from vrtspike.config.run_schema import RunSettings
from vrtspike.io.files import json_digest
from vrtspike.system.errors import ConfigError

_ADVICE = (
    "A sweep has BASE, the name of a preset, and GRID (lists of values by key, such as "
    "TRAIN.OPTIM.LR: [1.0e-3, 2.0e-3]), LIST (mappings of such keys to values), or both."
)

Values = Mapping[str, Any]
"""Values by key, such as ``{"TRAIN.OPTIM.LR": 0.001}``."""


_Choices = Annotated[list[JsonValue], Field(min_length=1)]


class _SweepFile(Section):
    BASE: str = key("Name of the preset whose keys are changed")
    GRID: dict[str, _Choices] = key("Values of each key; all combinations are tried", {})
    LIST: list[dict[str, JsonValue]] = key("Combinations that are tried, as they stand", [])


@dataclass(frozen=True)
class Sweep:
    """Presets that differ in the values of some keys.

    Attributes:
        place: the file.
        members: settings by name.
        error: why the sweep cannot be used; empty if it can.
    """

    place: str
    members: Mapping[str, RunSettings]
    error: str = ""


def read_sweep(path: Path, presets: Mapping[str, RunSettings], broken: Mapping[str, str]) -> Sweep:
    """Read ``config/sweeps/<name>.yaml``; an invalid one has an error and no members.

    Args:
        path: the file.
        presets: by name.
        broken: error messages of invalid presets.
    """
    try:
        base, members = sweep_values(path)
        if base in broken:
            raise ConfigError(broken[base])
        if base not in presets:
            raise ConfigError(f"{path}: BASE names {base!r}; presets: {', '.join(presets)}")
        settings = {
            name: override_settings(
                presets[base], document_of(nested(values), str(path)), f"preset {base}"
            )
            for name, values in members.items()
        }
        return Sweep(str(path), settings)
    except ConfigError as error:
        return Sweep(str(path), {}, str(error))


def sweep_values(path: Path) -> tuple[str, dict[str, Values]]:
    """The base of a sweep, and the changed values of each member.

    The name of a member contains a digest of its values, so that it does not depend on others.

    Raises:
        ConfigError: if it is not a sweep, is empty, or has the same values twice.
    """
    given = validate(_SweepFile, read_yaml(path), _ADVICE)
    grid = itertools.product(*given.GRID.values()) if given.GRID else ()
    combinations = [dict(zip(given.GRID, values, strict=True)) for values in grid]
    members: dict[str, Values] = {}
    for values in [*combinations, *given.LIST]:
        name = f"{path.stem}-{json_digest(values)[:6]}"
        if name in members:
            raise ConfigError(f"{path}: found {values} twice; remove one")
        members[name] = values
    if not members:
        raise ConfigError(f"{path}: found no values. {_ADVICE}")
    return given.BASE, members
