"""The build of a wheel: the workflow's own files travel beside the package.

Everything else stands in ``pyproject.toml``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("config/examples", "config/presets", "rules", "scripts", "workflow")
TARGET = "vrtspike_workflow"
"""As ``vrtspike.system.home`` expects it."""


class BuildWithWorkflow(build_py):
    """Also copy the workflow; an installation in editable mode finds it in the clone."""

    def run(self) -> None:
        """Build the packages, then copy the folders."""
        super().run()
        if self.editable_mode:
            return
        for folder in FOLDERS:
            target = Path(self.build_lib, TARGET, folder)
            shutil.rmtree(target, ignore_errors=True)
            ignored = shutil.ignore_patterns("__pycache__", "*.sif", "profiles/*/logs")
            shutil.copytree(folder, target, ignore=ignored)


setup(cmdclass={"build_py": BuildWithWorkflow})
