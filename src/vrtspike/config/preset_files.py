"""Files of presets: those of a project, and those of the workflow, which are found by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from vrtspike.system.home import PRESET_DIR, find_home

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""Names of presets and sweeps, which stand in commands and paths."""


@dataclass(frozen=True)
class PresetFiles:
    """Files of presets by name.

    Attributes:
        trainings: presets that can be trained, in the order of their names.
        project: presets of the project.
        bundled: presets of the workflow.
    """

    trainings: Mapping[str, Path]
    project: Mapping[str, Path]
    bundled: Mapping[str, Path]

    @property
    def bases(self) -> dict[str, Path]:
        """Files that ``BASE`` may name; those of the project come first."""
        return {**self.bundled, **self.project}

    def base(self, name: str, child: Path) -> Path | None:
        """Find the file that ``BASE`` names in a preset; None if there is none.

        In a preset that replaces one of the workflow, ``BASE`` of the same name is the replaced
        one.

        Args:
            name: value of ``BASE``.
            child: file of the preset.
        """
        if name == child.stem and name in self.bundled:
            return self.bundled[name]
        return self.bases.get(name)

    @property
    def notes(self) -> list[str]:
        """A line for each preset of the project that replaces one of the workflow."""
        return [
            f"{path} replaces the workflow's preset {name} ({self.bundled[name]})"
            for name, path in self.project.items()
            if name in self.bundled and self.trainings.get(name) == path
            if path.read_bytes() != self.bundled[name].read_bytes()
        ]


def find_presets(folder: Path) -> PresetFiles:
    """Find the presets of a folder and, if it is a project's usual one, those of the workflow.

    Presets of a project replace those of the workflow that have the same name. In another folder
    (PRESET_DIR) presets of the workflow are found as ``BASE`` only.

    Args:
        folder: folder of the presets, as in PRESET_DIR.
    """
    project = _files(folder)
    workflow: dict[str, Path] = {}
    home = find_home()
    if home is not None and folder.resolve() != (home / PRESET_DIR).resolve():
        workflow = _files(home / PRESET_DIR)
    trainings = project
    if folder == Path(PRESET_DIR):
        trainings = dict(sorted({**workflow, **project}.items()))
    return PresetFiles(trainings, project, workflow)


def _files(folder: Path) -> dict[str, Path]:
    """Return the files ``<preset>.yaml`` of a folder by name."""
    paths = sorted(folder.glob("*.yaml"))
    return {path.stem: path for path in paths if _NAME.fullmatch(path.stem)}


def misnamed(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Return the error messages on files of forbidden names, by their names as presets.

    Args:
        folder: folder of the files.
        names: names of existing presets or sweeps; files ``*.yml`` of these names are ignored.
    """
    faults = {}
    for path in sorted(folder.glob("*.yaml")):
        if not _NAME.fullmatch(path.stem):
            faults[path.stem] = (
                f"{path}: found the name {path.stem!r}, expected letters from a to z, digits, '_', "
                "'.' and '-', as names of presets and sweeps are parts of commands; rename the file"
            )
    for path in sorted(folder.glob("*.yml")):
        if path.stem not in names:
            faults[path.stem] = (
                f"{path}: presets and sweeps end with .yaml; rename it: mv {path} "
                f"{path.with_suffix('.yaml')}"
            )
    return faults
