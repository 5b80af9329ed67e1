"""Presets of a project beside those of the workflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config.loading import load_preset
from vrtspike.config.preset_files import find_presets
from vrtspike.config.workflow import load_workflow
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
    return load_workflow(["config/config.yaml"])


def test_they_are_found_by_name(general):
    presets = workflow().presets
    assert list(presets) == ["base", "child", "own"]
    assert (presets["own"].SEED, presets["own"].TRAIN.MAX_STEPS) == (5, 7)
    assert find_presets(Path(PRESET_DIR)).files["base"] == general / "base.yaml"
    assert find_presets(Path(PRESET_DIR)).files["own"] == Path(PRESET_DIR, "own.yaml")


def test_another_preset_of_the_same_name_is_refused_with_both_paths(general):
    child = Path(PRESET_DIR, "child.yaml")
    child.write_text("SEED: 6\n")
    loaded = workflow()
    assert list(loaded.presets) == ["base"]
    for name in ("child", "own"):
        with pytest.raises(ConfigError) as failure:
            loaded.preset(name)
        assert str(child) in str(failure.value)
        assert str(general / "child.yaml") in str(failure.value)


def test_a_copy_is_no_other_preset(general):
    child = Path(PRESET_DIR, "child.yaml")
    child.write_text((general / "child.yaml").read_text())
    assert list(workflow().presets) == ["base", "child", "own"]


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
