"""Sweeps: files with a preset and values of some of its keys."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from vrtspike.config.checking import validate_document
from vrtspike.config.fields import Section, key
from vrtspike.config.loading import override_settings
from vrtspike.config.preset_files import misnamed
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import document_from_tree, read_yaml, unflatten
from vrtspike.io.files import json_digest
from vrtspike.system.errors import ConfigError

_ADVICE = (
    "A sweep has BASE, the name of a preset, and GRID (lists of values by key, such as "
    "TRAIN.OPTIM.LR: [1.0e-3, 2.0e-3]), LIST (mappings of such keys to values), or both."
)

KeyValues = Mapping[str, Any]
"""Values by key, such as ``{"TRAIN.OPTIM.LR": 0.001}``."""


_DIGITS = 6
"""Hexadecimal digits of a digest in the name of a member."""

_Choices = Annotated[list[JsonValue], Field(min_length=1)]


class _SweepFile(Section):
    BASE: str = key("Name of the preset whose keys are changed")
    GRID: dict[str, _Choices] = key("Values of each key; all combinations are tried", {})
    LIST: list[dict[str, JsonValue]] = key("Combinations that are tried, as they stand", [])


@dataclass(frozen=True)
class Sweep:
    """Presets that differ in the values of some keys.

    Attributes:
        path: path of the sweep's file, for messages.
        members: settings by name.
        error: message if the sweep cannot be used; empty if it can.
    """

    path: str
    members: Mapping[str, RunSettings]
    error: str = ""


def read_sweep(path: Path, presets: Mapping[str, RunSettings], broken: Mapping[str, str]) -> Sweep:
    """Read ``config/sweeps/<name>.yaml``; an invalid one has an error and no members.

    Args:
        path: path of the sweep's file.
        presets: presets by name.
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
                presets[base], document_from_tree(unflatten(values), str(path)), f"preset {base}"
            )
            for name, values in members.items()
        }
        return Sweep(str(path), settings)
    except ConfigError as error:
        return Sweep(str(path), {}, str(error))


def read_sweeps(
    folder: Path, presets: Mapping[str, RunSettings], broken: Mapping[str, str]
) -> dict[str, Sweep]:
    """Return the sweeps of a folder by name; those of forbidden names with their fault."""
    sweeps = {
        path.stem: read_sweep(path, presets, broken) for path in sorted(folder.glob("*.yaml"))
    }
    for name, fault in misnamed(folder, sweeps).items():
        sweeps[name] = Sweep(fault.partition(":")[0], {}, fault)
    return sweeps


def sweep_values(path: Path) -> tuple[str, dict[str, KeyValues]]:
    """Return the base of a sweep, and the changed values of each member.

    The name of a member contains a digest of its values, so that it does not depend on others; of
    two with the same six digits the later one has more.

    Raises:
        ConfigError: if it is not a sweep, is empty, or has the same values twice.
    """
    sweep = validate_document(_SweepFile, read_yaml(path), _ADVICE)
    combinations: list[KeyValues] = []
    if sweep.GRID:
        for combination in itertools.product(*sweep.GRID.values()):
            combinations.append(dict(zip(sweep.GRID, combination, strict=True)))
    combinations += sweep.LIST
    members: dict[str, KeyValues] = {}
    digests: set[str] = set()
    for values in combinations:
        digest = json_digest(values)
        if digest in digests:
            raise ConfigError(f"{path}: found {values} twice; remove one")
        digests.add(digest)
        name = f"{path.stem}-{digest[:_DIGITS]}"
        if name in members:
            name = f"{path.stem}-{digest}"
        members[name] = values
    if not members:
        raise ConfigError(f"{path}: found no values. {_ADVICE}")
    return sweep.BASE, members
