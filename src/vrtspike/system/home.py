"""The workflow's own folder: Snakefile, rules, programs and presets, the same for all projects.

The home is the folder of a clone; for an installed wheel, it is a folder next to the package.
Configuration, data and results belong to the project, which is the working directory.
"""

from __future__ import annotations

import os
from pathlib import Path

from vrtspike.system.errors import RunError

HOME_VARIABLE = "VRTSPIKE_WORKFLOW"
"""Environment variable with the folder, which the Snakefile sets for its jobs."""

PACKED = Path(__file__).parents[2] / "vrtspike_workflow"
"""The folder next to the package of an installed wheel; a clone has none. The folder is not within
the package, so that programs have the same names in digests of code
(:mod:`vrtspike.staleness.source_digests`)."""

SNAKEFILE = Path("workflow/Snakefile")
CONFIG = Path("config/config.yaml")
"""The configuration of a project, in its folder."""
PRESET_DIR = "config/presets"
"""Folder of the presets, of the workflow and, by default, of a project."""

DEMO_COMMAND = "snakemake --cores all demo"
"""The command for whoever has no data, in a project as in a clone."""

_PARTS = (SNAKEFILE, Path("rules/common.smk"), Path("scripts/train.py"))
"""Files by which the folder is recognised."""


def is_home(folder: Path) -> bool:
    """Return whether a folder has the workflow's own files."""
    return all((folder / part).is_file() for part in _PARTS)


def find_home() -> Path | None:
    """Return the workflow's own folder; None if the package was installed without it.

    The search has this order: the home of the running Snakefile (:data:`HOME_VARIABLE`), a clone
    that is the working directory, the home in the package.
    """
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen)
    clone = Path(__file__).parents[3]
    return next(filter(is_home, (Path.cwd(), PACKED, clone)), None)


def require_home() -> Path:
    """Return the workflow's own folder.

    Raises:
        RunError: if the package was installed without it.
    """
    home = find_home()
    if home is None:
        raise RunError(
            f"{Path(__file__).parents[1]}: the package is installed without {SNAKEFILE}, rules and "
            "scripts; install it again from a wheel, or in its clone: pip install '.[workflow]'"
        )
    return home


def use_home(rules: str) -> Path:
    """Set the workflow's own folder for this process and its jobs.

    Args:
        rules: folder or address of the running rules.

    Returns:
        the folder that contains the rules, or, for rules that are read from elsewhere (the address
        of a repository), that of the installed package.

    Raises:
        RunError: if the package was installed without it.
    """
    folder = Path(rules).parent
    home = folder if is_home(folder) else require_home()
    os.environ[HOME_VARIABLE] = str(home)
    return home


def require_project() -> None:
    """Reject a working directory without a configuration.

    Raises:
        RunError: naming the folder, and the command that makes a project.
    """
    if not CONFIG.is_file():
        raise RunError(
            f"{Path.cwd()}: no {CONFIG} here; go to the project's folder, or make one: "
            "vrtspike init my_project"
        )
