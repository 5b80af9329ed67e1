"""Projects to run Snakemake in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.project import Project, tiny_project
from tests.workflow.staleness import copied


@pytest.fixture(scope="module")
def cloned_project(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project as it is cloned: no data; each test of a file leaves it as it was."""
    return Project.copy(repository, tmp_path_factory.mktemp("clone") / "project")


@pytest.fixture(scope="session")
def finished_once(repository: Path, make_once: Callable[..., Path]) -> Project:
    """The project with a tiny data set, both presets trained, evaluated and reported on.

    It is one for all tests: look at it, or change a copy.
    """

    def make(folder: Path) -> None:
        project = tiny_project(repository, folder)
        (folder / "terminal.txt").write_text(project.make("all"))

    return Project(make_once("finished", make))


@pytest.fixture(scope="module")
def finished(finished_once: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of it for the tests of a file, each of which leaves it as it was."""
    return copied(finished_once, tmp_path_factory.mktemp("finished") / "project")


@pytest.fixture
def uncomputed_project(repository: Path, tmp_path: Path) -> Project:
    """The project with a tiny data set, nothing computed yet."""
    return tiny_project(repository, tmp_path / "project")
