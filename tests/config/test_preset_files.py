"""Presets of a project beside those of the workflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config.loading import load_preset
from vrtspike.config.preset_files import find_presets
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.system.errors import ConfigError
from vrtspike.system.home import HOME_VARIABLE, PRESET_DIR


@pytest.fixture(autouse=True)
def general(tmp_path, monkeypatch) -> Path:
    """The workflow's presets; the working directory is a project with the preset ``own``."""
    folder = tmp_path / "home" / PRESET_DIR
    folder.mkdir(parents=True)
    (folder / "base.yaml").write_text("SEED: 5\n")
    (folder / "child.yaml").write_text("BASE: base\n")
    project = tmp_path / "project"
    (project / PRESET_DIR).mkdir(parents=True)
    (project / PRESET_DIR / "own.yaml").write_text("BASE: child\nTRAIN: {MAX_STEPS: 7}\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return folder


def workflow(text: str = ""):
    Path("config/config.yaml").write_text(f"PRESETS: [own]\n{text}")
    return load_workflow_config(["config/config.yaml"])


def test_they_are_found_by_name(general):
    presets = workflow().presets
    assert list(presets) == ["base", "child", "own"]
    assert (presets["own"].SEED, presets["own"].TRAIN.MAX_STEPS) == (5, 7)
    files = find_presets(Path(PRESET_DIR))
    assert files.trainings["base"] == general / "base.yaml"
    assert files.trainings["own"] == Path(PRESET_DIR, "own.yaml")
    assert files.notes == workflow().notes == []


def test_a_preset_of_the_project_replaces_that_of_the_workflow_and_this_is_said(general):
    child = Path(PRESET_DIR, "child.yaml")
    child.write_text("BASE: child\nTRAIN: {EPOCHS: 6}\n")
    loaded = workflow()
    settings = {name: (s.SEED, s.TRAIN.EPOCHS) for name, s in loaded.presets.items()}
    assert settings == {"base": (5, 40), "child": (5, 6), "own": (5, 6)}
    expected = f"{child} replaces the workflow's preset child ({general / 'child.yaml'})"
    assert loaded.notes == [expected]


def test_a_preset_is_no_base_of_itself(general):
    Path(PRESET_DIR, "own.yaml").write_text("BASE: own\n")
    with pytest.raises(ConfigError, match=r"BASE is circular: own\.yaml -> own\.yaml"):
        workflow().settings_of("own")


def test_a_copy_is_no_other_preset(general):
    child = Path(PRESET_DIR, "child.yaml")
    child.write_text((general / "child.yaml").read_text())
    assert list(workflow().presets) == ["base", "child", "own"]
    assert workflow().notes == []


def test_in_another_folder_names_are_free_and_only_bases_are_found(general):
    folder = Path("mine")
    folder.mkdir()
    (folder / "own.yaml").write_text("BASE: base\n")
    (folder / "child.yaml").write_text("SEED: 6\n")
    presets = workflow("PRESET_DIR: mine\n").presets
    assert {name: settings.SEED for name, settings in presets.items()} == {"child": 6, "own": 5}
    (folder / "own.yaml").write_text("BASE: nosuch\n")
    with pytest.raises(ConfigError, match="there: base, child, own"):
        load_preset(folder / "own.yaml")
