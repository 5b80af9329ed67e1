"""A run that nothing disturbs, and projects that begin where it was at some stage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.results import results
from tests.workflow.project import TINY, Project, tiny_project

CHANGES = {
    "MAX_STEPS: 2": "MAX_STEPS: 48\n  EPOCHS: 48\n  SAVE_EVERY_STEPS: 1",
    "TOTAL_WORKERS: 0": "TOTAL_WORKERS: 2, TRAIN_WORKERS: 1, VAL_WORKERS: 1",
    "VAL_EVERY_STEPS: 100": "VAL_EVERY_STEPS: 32",
    # Without its network for optical flow a step is five times as fast.
    "  VRT:\n": "  VRT:\n    PA_FRAMES: 0\n",
}
CONFIG = "DATA: {ROOT: data/tiny}\nPRESETS: [tiny]\nGPUS: 0\n"

AFTER = {
    "raw data": ["results", "runs", ".snakemake"],
    "data": [
        *("runs", "results/train", "results/evaluate", "results/performance", "results/compare"),
        *("results/index.html", "results/report.html"),
    ],
    "training": [],
}
"""Stages that a project lacks at this point."""


@dataclass(frozen=True)
class Undisturbed:
    """A finished run, and what it came to."""

    project: Project
    results: dict[str, Any]

    def copy(self, folder: Path, after: str) -> Project:
        """A project with the same raw files that has come as far as a key of :data:`AFTER`."""
        shutil.copytree(self.project.folder, folder, symlinks=True)
        for name in AFTER[after]:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return Project(folder)


@pytest.fixture(scope="session")
def undisturbed(repository: Path, make_once: Callable[..., Path]) -> Undisturbed:
    """Once for all tests of this folder, which change copies."""

    def make(folder: Path) -> None:
        project = tiny_project(repository, folder)
        text = TINY
        for old, new in CHANGES.items():
            assert old in text
            text = text.replace(old, new)
        project.write("config/presets/tiny.yaml", text)
        project.write("config/config.yaml", CONFIG)
        project.make("all")

    project = Project(make_once("undisturbed", make))
    return Undisturbed(project, results(project.folder))


@pytest.fixture
def after(undisturbed: Undisturbed, tmp_path: Path) -> Callable[[str], Project]:
    """A project of its own that has come as far as a stage."""
    return lambda stage: undisturbed.copy(tmp_path / "project", stage)
