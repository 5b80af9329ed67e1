"""Folders of restored frames as results of a figure."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests.helpers.small_run import write_light_run
from tests.paper_figures.conftest import no_progress
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.spikes import read_spikes, write_spikes
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import read_rgb
from vrtspike.paper_figures.restored_results import read_restored
from vrtspike.paper_figures.results_of_folders import read_results
from vrtspike.restoration.folder.opened_request import open_request
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.loading import load
from vrtspike.system.errors import ConfigError, DataError, RunError


@pytest.fixture(scope="session")
def restored(small_run, evaluated, tmp_path_factory):
    """Test sequences restored by the run ``one``: folders by sequence."""
    model = load(evaluated / "train/one", device="cpu")
    folders = {}
    for name in "bc":
        sequence = small_run.raw / "test" / name
        folders[name] = tmp_path_factory.mktemp("restored") / name
        request = RestoreRequest(
            sequence / "blur", folders[name], sequence / "spike", sharp=sequence / "sharp"
        )
        job = open_request(model.run, request)
        model.restore_opened(job, open_progress=no_progress, note=lambda text: None)
    return folders


def test_the_folder_gives_frames_input_and_psnr(restored, small_run):
    result = read_restored(restored["b"])
    clip = result.clips["b"]
    frame = "000003"
    (image,) = clip.restored([frame])
    assert np.array_equal(image, read_rgb(restored["b"] / f"restored/{frame}.png"))
    for kind, picture in (("blur", clip.blurry), ("sharp", clip.sharp)):
        assert np.array_equal(
            picture(frame), read_rgb(small_run.raw / f"test/b/{kind}/{frame}.png")
        )
    assert clip.spikes(frame).shape == (24, 32)
    entries = json.loads((restored["b"] / "restore.json").read_text())["frames"]
    assert result.frame_psnr["psnr"].tolist() == [entry["psnr"] for entry in entries]
    assert result.frame_psnr["frame"].tolist() == list(clip.frames)


def test_recorded_spikes_have_the_layout_of_the_preset(small_run, tmp_path):
    """33 steps are an exposure of Spk-X4K1000FPS, and none of Spk-GoPro."""
    train = tmp_path / "train"
    write_light_run(small_run, train)
    settings = read_json(train / "settings.json")
    settings["settings"]["DATA"]["LAYOUT"] = "spk_x4k_33"
    write_json(train / "settings.json", settings)
    sequence = tmp_path / "b"
    shutil.copytree(small_run.raw / "test" / "b", sequence)
    for path in (sequence / "spike").iterdir():
        spikes = read_spikes(path, 24, 32)
        write_spikes(path, np.resize(spikes, (33, 24, 32)))
    request = RestoreRequest(sequence / "blur", tmp_path / "out", sequence / "spike", anyway=True)
    model = load(train, device="cpu")
    opened = open_request(model.run, request)
    model.restore_opened(opened, open_progress=no_progress, note=lambda text: None)
    record = read_json(request.output / "restore.json")
    assert record["spikes"]["layout"] == "spk_x4k_33"
    recorded = read_restored(request.output).clips["b"].recorded("000003")
    assert recorded.exposure == Exposure(0, 33, 16)
    # Records of before kept the option --layout, which was not given.
    record["spikes"]["layout"] = None
    write_json(request.output / "restore.json", record)
    with pytest.raises(DataError, match=r"restore\.json: spikes\.layout: found null .*again with"):
        read_restored(request.output)


def test_sequences_of_one_model_are_one_result(restored, restorer):
    (result,) = read_results(list(restored.values()), restorer)
    assert list(result.clips) == ["b", "c"]
    assert set(result.frame_psnr["sequence"]) == {"b", "c"}
    for name in "bc":
        (image,) = result.clips[name].restored(["000001"])
        assert np.array_equal(image, read_rgb(restored[name] / "restored/000001.png"))


def test_two_results_of_one_name_and_sequence_need_labels(restored, restorer, tmp_path):
    shutil.copytree(restored["b"], tmp_path / "again")
    folders = [restored["b"], tmp_path / "again"]
    with pytest.raises(ConfigError, match=r"two results of sequence b are called one; name them"):
        read_results(folders, restorer)
    labels = [result.label for result in read_results(folders, restorer, labels=["x", "y"])]
    assert labels == ["x", "y"]
    with pytest.raises(ConfigError, match="--labels: found 1"):
        read_results(folders, restorer, labels=["x"])
    with pytest.raises(ConfigError, match=r"neither run\.json nor restore\.json there"):
        read_results([tmp_path], restorer)


@pytest.mark.parametrize("label", ["blurry", "sharp", "number"])
def test_a_name_that_figures_give_to_something_else_is_refused(restored, restorer, label):
    with pytest.raises(ConfigError, match=rf"{restored['b']}: called {label}, .*with --labels"):
        read_results([restored["b"]], restorer, labels=[label])


def test_what_is_not_there_is_named(restored, small_run, tmp_path):
    folder = tmp_path / "copied"
    shutil.copytree(restored["b"], folder)
    record = json.loads((folder / "restore.json").read_text())
    with pytest.raises(ConfigError, match="--protocol vrt"):
        read_restored(folder, "vrt")
    write_json(folder / "restore.json", record | {"frames": []})
    with pytest.raises(RunError, match="the restoration is not finished"):
        read_restored(folder)
    moved = record | {"paths": record["paths"] | {"input": "elsewhere/blur"}}
    write_json(folder / "restore.json", moved)
    with pytest.raises(DataError, match=r"elsewhere/blur: no such file or folder; .*its input"):
        read_restored(folder)
    # Records of before name no sharp frames.
    paths = {name: path for name, path in record["paths"].items() if name != "sharp"}
    write_json(folder / "restore.json", record | {"paths": paths})
    assert read_restored(folder).clips["b"].sharp("000002") is None
    clip = read_restored(folder, sharp=small_run.raw / "test/b/sharp").clips["b"]
    assert np.array_equal(clip.sharp("000002"), read_rgb(small_run.raw / "test/b/sharp/000002.png"))
    (folder / "restored/000004.png").unlink()
    with pytest.raises(DataError, match=r"restored/000004\.png"):
        read_restored(folder)
