"""The project's wheel, and empty environments with it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from types import ModuleType

PARTS = (
    "MANIFEST.in",
    "README.md",
    "config",
    "pyproject.toml",
    "rules",
    "scripts",
    "setup.py",
    "src",
    "workflow",
)
"""Files and folders from which the project is built."""
_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def copy_project(repository: Path, folder: Path) -> None:
    """Copy what the project is built from, as building leaves files in its folder."""
    for name in PARTS:
        if (repository / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(repository / name, folder / name, ignore=ignored)
        else:
            shutil.copy(repository / name, folder)


def build_wheel(repository: Path, folder: Path) -> Path:
    """Build a copy of the project in this folder; returns its wheel."""
    copy_project(repository, folder)
    options = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, *_PIP, *options, str(folder)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def load_install_script(repository: Path) -> ModuleType:
    """Import ``scripts/install.py``, which is in no package."""
    path = repository / "scripts/install.py"
    spec = importlib.util.spec_from_file_location("install", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def install_wheel(repository: Path, requirement: str, folder: Path) -> Path:
    """Make an empty environment with the wheel; returns its Python.

    The packages come from the cache of uv, where setting the project up left them.

    Args:
        repository: has the lock.
        requirement: path of the wheel, with extras.
        folder: of the environment.
    """
    venv.create(folder)
    program = folder / "bin/python"
    command, variables = load_install_script(repository).uv_command(str(program))
    options = ["--quiet", "--constraint", str(repository / "requirements.lock")]
    subprocess.run([*command, *options, requirement], env=variables, check=True)
    return program


def environment_of_wheel() -> dict[str, str]:
    """Variables without the sources, which would be found before the wheel."""
    left_out = ("PYTHONPATH", "VRTSPIKE_WORKFLOW")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "SLURM_CONF": os.devnull}
