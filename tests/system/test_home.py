"""The workflow's own folder: of the running Snakefile, of a clone, of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.system import home
from vrtspike.system.errors import RunError


def make_home(folder: Path) -> Path:
    """A folder with the files by which it is recognised."""
    for name in ("workflow/Snakefile", "rules/common.smk", "scripts/train.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch()
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """No Snakefile has run, and the working directory is no clone."""
    monkeypatch.delenv(home.HOME_VARIABLE)
    monkeypatch.chdir(tmp_path)


def test_a_clone_is_found_from_anywhere_and_the_working_directory_comes_first(
    repository, tmp_path, monkeypatch
):
    assert home.find_home() == repository
    clone = make_home(tmp_path / "clone")
    monkeypatch.chdir(clone)
    assert home.find_home() == clone


def test_an_installed_package_has_the_folder_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(home, "PACKED", make_home(tmp_path / "vrtspike_workflow"))
    assert home.require_home() == tmp_path / "vrtspike_workflow"


def test_a_package_without_the_folder_is_refused(monkeypatch):
    monkeypatch.setattr(home, "is_home", lambda folder: False)
    assert home.find_home() is None
    with pytest.raises(RunError, match="installed without workflow/Snakefile"):
        home.require_home()


def test_jobs_take_the_folder_of_the_running_rules(repository, tmp_path):
    clone = make_home(tmp_path / "clone")
    assert home.use_home(str(clone / "rules")) == clone
    assert home.find_home() == clone
    # The rules of a repository's address come without programs.
    assert home.use_home("owner/vrtspike/rules@v1") == clone


def test_a_folder_without_a_configuration_is_refused_with_the_command_that_makes_one(tmp_path):
    with pytest.raises(RunError, match=rf"{tmp_path}: no config/config\.yaml .* vrtspike init"):
        home.require_project()
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").touch()
    home.require_project()
