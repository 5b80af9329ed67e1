"""Evaluated runs as results of a figure."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.paper_figures.conftest import decibels, no_progress
from vrtspike.analysis.evaluation_files import read_summary, write_summary
from vrtspike.io.images import read_rgb
from vrtspike.paper_figures.run_results import RunRestorer, read_run_result
from vrtspike.system.errors import ConfigError


def test_frames_restored_again_are_those_of_the_evaluation(evaluated, restorer, small_run):
    result = read_run_result(evaluated / "train/one", restorer)
    frames = list(result.clips["b"].frames)
    restored = list(result.clips["b"].restored(frames))
    rows = pd.read_csv(evaluated / "evaluate/one/frames.csv", dtype={"frame": str})
    rows = rows[rows["sequence"] == "b"]
    assert rows["frame"].tolist() == frames
    for frame, image, measured in zip(frames, restored, rows["psnr"], strict=True):
        sharp = read_rgb(small_run.raw / f"test/b/sharp/{frame}.png")
        assert decibels(image, sharp) == pytest.approx(measured, abs=1e-5)
        assert np.array_equal(result.clips["b"].sharp(frame), sharp)
    assert result.frame_psnr["psnr"].tolist()[:5] == pytest.approx(rows["psnr"].tolist())
    assert result.cost.psnr == pytest.approx(result.frame_psnr["psnr"].mean(), abs=1e-4)
    assert result.cost.device == "cpu"
    assert result.cost.seconds > 0


def test_kept_examples_are_not_restored_again(evaluated):
    class NoDevice(RunRestorer):
        @property
        def device(self) -> torch.device:
            raise AssertionError("nothing has to be computed")

    result = read_run_result(evaluated / "train/one", NoDevice("cpu", no_progress))
    folder = evaluated / "evaluate/one/examples/b"
    frames = sorted(path.name for path in folder.iterdir())
    assert 0 < len(frames) < 5
    for name, image in zip(frames, result.clips["b"].restored(frames), strict=True):
        assert np.array_equal(image, read_rgb(folder / name / "restored.png"))


@pytest.fixture
def moved(evaluated, small_run, tmp_path) -> Path:
    """Results without the stores of their test data."""
    folder = tmp_path / "copied"
    shutil.copytree(evaluated, folder)
    settings = folder / "train/one/settings.json"
    text = settings.read_text()
    assert str(small_run.dataset) in text
    settings.write_text(text.replace(str(small_run.dataset), "results/data/small/k4/dataset.json"))
    return folder


def test_without_stores_the_kept_examples_remain(evaluated, moved, restorer):
    result = read_run_result(moved / "train/one", restorer)
    assert any("stores of its test data are not beside it" in note for note in result.notes)
    clip = result.clips["b"]
    folder = evaluated / "evaluate/one/examples/b"
    assert list(clip.frames) == sorted(path.name for path in folder.iterdir())
    assert not clip.is_complete
    frame = clip.frames[0]
    assert np.array_equal(clip.blurry(frame), read_rgb(folder / frame / "blurry.png"))
    assert np.array_equal(clip.sharp(frame), read_rgb(folder / frame / "sharp.png"))
    assert clip.spikes(frame).shape == (24, 32)
    assert not clip.has_recorded_spikes
    for name, image in zip(clip.frames, clip.restored(clip.frames), strict=True):
        assert np.array_equal(image, read_rgb(folder / name / "restored.png"))


def test_without_stores_another_protocol_has_no_frames(moved, restorer):
    """The kept examples were restored under the main one."""
    path = moved / "evaluate/one/summary.json"
    other = {"vrt": {"protocol": "vrt", "metrics": {}}}
    write_summary(path, read_summary(path) | {"other_protocols": other})
    assert read_run_result(moved / "train/one", restorer, "vrt").clips == {}


def test_the_time_of_a_whole_evaluation_is_not_the_models(evaluated, restorer, tmp_path):
    """Earlier versions wrote it."""
    shutil.copytree(evaluated, tmp_path / "copied")
    path = tmp_path / "copied/evaluate/one/summary.json"
    summary = read_summary(path)
    seconds = summary.pop("model_seconds_per_frame")
    write_summary(path, summary | {"seconds_per_frame": seconds})
    assert read_run_result(tmp_path / "copied/train/one", restorer).cost.seconds is None


def test_only_the_main_protocol_was_timed(evaluated, restorer, tmp_path):
    shutil.copytree(evaluated, tmp_path / "copied")
    path = tmp_path / "copied/evaluate/one/summary.json"
    summary = read_summary(path)
    assert summary["model_seconds_per_frame"] > 0
    other = {"protocol": "vrt", "metrics": summary["metrics"]}
    write_summary(path, summary | {"other_protocols": {"vrt": other}})
    cost = read_run_result(tmp_path / "copied/train/one", restorer, "vrt").cost
    assert (cost.psnr, cost.protocol) == (summary["metrics"]["psnr"]["restored"], "vrt")
    assert cost.seconds is None


def test_a_protocol_that_was_not_measured_is_refused(evaluated, restorer):
    with pytest.raises(ConfigError, match=r"--protocol vrt: .*evaluate/one has the protocols own"):
        read_run_result(evaluated / "train/one", restorer, "vrt")
