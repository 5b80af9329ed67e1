"""Names of trained models: the package's own, folders, models of the hub."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.helpers.presets import deblurring_presets
from vrtspike.deblurring.task import data_folder
from vrtspike.runs import named_models
from vrtspike.runs.named_models import (
    bundled_model,
    find_trained_model,
    missing_pretrained_advice,
    pretrained_file,
)
from vrtspike.system.errors import RunError


def test_the_demo_uses_the_weights_of_the_package(repository):
    presets = deblurring_presets(repository)
    shown, trained = presets["general_demo"], presets["light_demo"]
    assert shown.unchanged_weights == "general"
    named = presets["general"].MODEL.model_copy(update={"PRETRAINED": "general"})
    assert shown.MODEL == named
    assert data_folder(shown) == data_folder(trained)
    for key in ("METRICS", "PROTOCOL", "SPIKES_ALONE", "SAVE_VIDEO"):
        assert getattr(shown.TEST, key) == getattr(trained.TEST, key)
    # Whole frames, as many at once.
    assert (shown.TEST.TILE.SIZE, shown.TEST.TILE.FRAMES) == (0, trained.TEST.TILE.FRAMES)


@pytest.fixture
def bundled(tmp_path, monkeypatch) -> Path:
    """An installation with weights of its own, and a working folder beside it."""
    monkeypatch.setattr(named_models, "bundled_folder", (tmp_path / "package").joinpath)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "package"


def test_weights_of_the_package_are_found_by_name_from_any_folder(bundled):
    with pytest.raises(RunError, match="'general' are not in this installation; name a result"):
        find_trained_model("general")
    assert pretrained_file("general") == bundled / "general/weights.safetensors"
    (bundled / "general").mkdir(parents=True)
    (bundled / "general/weights.safetensors").touch()
    Path("general").mkdir()
    assert find_trained_model("general") == bundled_model("general") == bundled / "general"
    assert find_trained_model("./general") == Path("general")


def test_a_start_is_a_folder_or_its_file(bundled):
    for name in ("results/train/p", "results/train/p/weights.safetensors"):
        assert pretrained_file(name) == Path("results/train/p/weights.safetensors")


def test_a_start_of_the_hub_comes_from_its_cache_without_download(bundled, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def cached(name: str, local_files_only: bool) -> str:
        assert local_files_only
        if name == "somebody/else":
            raise OSError("not there")
        if name == "somebody/disconnected":
            raise hub.errors.HfHubHTTPError("refused", response=Mock())
        if name == "somebody/interrupted":
            raise RuntimeError("of the package that transfers files")
        return "/cache/given"

    monkeypatch.setattr(hub, "snapshot_download", cached)
    assert pretrained_file("somebody/given") == Path("/cache/given/weights.safetensors")
    for name in ("somebody/else", "somebody/disconnected", "somebody/interrupted"):
        assert pretrained_file(name) == Path(name, "weights.safetensors")
    # A folder comes before a model of the hub.
    Path("somebody/given").mkdir(parents=True)
    assert pretrained_file("somebody/given") == Path("somebody/given/weights.safetensors")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("general", "the weights 'general' are not in this installation; name a result folder"),
        ("somebody/else", "hf download somebody/else"),
        ("results/train/p", "name a result folder"),
    ],
)
def test_the_message_on_a_missing_start_lists_valid_forms(bundled, name, message):
    assert message in missing_pretrained_advice(name)
