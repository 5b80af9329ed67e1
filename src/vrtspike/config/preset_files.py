"""Files of presets: those of a project, and those of the workflow, which are found by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vrtspike.system.home import PRESET_DIR, find_home


@dataclass(frozen=True)
class PresetFiles:
    """Files of presets by name.

    Attributes:
        files: in the order of their names.
        refused: error messages by name, of a project's presets named like another one of the
            workflow.
        bases: files that ``BASE`` may name.
    """

    files: Mapping[str, Path]
    refused: Mapping[str, str]
    bases: Mapping[str, Path]


def find_presets(folder: Path) -> PresetFiles:
    """Find the presets of a folder and, if it is a project's usual one, those of the workflow.

    A copy of a preset of the workflow counts as that preset. In another folder (PRESET_DIR) names
    are free, and presets of the workflow are found as ``BASE`` only.

    Args:
        folder: as in PRESET_DIR.
    """
    own = _files(folder)
    home = find_home()
    general = _files(home / PRESET_DIR) if home is not None else {}
    bases = {**general, **own}
    if folder != Path(PRESET_DIR):
        return PresetFiles(own, {}, bases)
    refused = {
        name: _clash(name, own[name], general[name])
        for name in own.keys() & general.keys()
        if own[name].read_bytes() != general[name].read_bytes()
    }
    return PresetFiles(dict(sorted(bases.items())), refused, bases)


def _files(folder: Path) -> dict[str, Path]:
    """The files ``<preset>.yaml`` of a folder by name."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def _clash(name: str, own: Path, general: Path) -> str:
    return (
        f"{own}: the workflow has another preset named {name} ({general}); rename the first, and "
        f"give it BASE: {name} if it changes some keys of the second"
    )
