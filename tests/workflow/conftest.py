"""Projects to run Snakemake in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.project import Project, tiny_project


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project as it is cloned: no data."""
    return Project.copy(repository, tmp_path_factory.mktemp("clone") / "project")


@pytest.fixture(scope="module")
def finished(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project with a tiny data set, both presets trained, evaluated and reported on."""
    project = tiny_project(repository, tmp_path_factory.mktemp("finished") / "project")
    (project.folder / "terminal.txt").write_text(project.make("all"))
    return project


@pytest.fixture
def tiny(repository: Path, tmp_path: Path) -> Project:
    """The project with a tiny data set, nothing computed yet."""
    return tiny_project(repository, tmp_path / "project")
