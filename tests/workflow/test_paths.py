"""Paths of the workflow's own files, in a clone and elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.system.home import HOME_VARIABLE, use_home
from vrtspike.workflow.paths import WorkflowPaths


@pytest.fixture
def places(repository, monkeypatch) -> WorkflowPaths:
    monkeypatch.setenv(HOME_VARIABLE, "")  # restored afterwards
    return WorkflowPaths(use_home(str(repository / "rules")))


def test_in_the_clone_all_are_relative(repository, places, monkeypatch):
    monkeypatch.chdir(repository)
    assert places.program("train.py") == "python scripts/train.py"
    assert places.scripts == Path("scripts")
    assert places.container == "workflow/containers/vrtspike.sif"
    assert "workflow/report/loss.rst" in places.captions
    assert "src/vrtspike/reporting/assets/page.html" in places.assets


def test_elsewhere_commands_name_no_folder_that_may_change(
    repository, places, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert places.program("train.py") == f'python "${HOME_VARIABLE}"/scripts/train.py'
    assert places.scripts == repository / "scripts"
    assert str(repository / "workflow/report/loss.rst") in places.captions
    assert str(repository / "src/vrtspike/reporting/assets/page.html") in places.assets
