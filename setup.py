"""Build a wheel that ships the workflow's files next to the package.

Everything else is in ``pyproject.toml``.
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
        if self.editable_mode:
            super().run()
            return
        # Files of an earlier build would be packed, too, even those that the project has no more.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        for folder in FOLDERS:
            target = Path(self.build_lib, TARGET, folder)
            shutil.copytree(folder, target, ignore=shutil.ignore_patterns("__pycache__", "*.sif"))


setup(cmdclass={"build_py": BuildWithWorkflow})
