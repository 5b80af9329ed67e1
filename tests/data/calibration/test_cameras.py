"""Calibration of frames with a known homography and time offset."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

from tests.data.calibration.two_cameras import (
    OFFSET,
    SENSOR,
    max_error,
    warped_by_other_camera,
    write_scene,
)
from tests.data.scenes import film
from vrtspike.commands.main import run_command
from vrtspike.data.calibration.cameras import calibrate_camera
from vrtspike.data.data_source import RawFolder
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, read_exposures
from vrtspike.data.raw.layouts.files import sensor_size
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sensor import simulate_spikes, synthesize_blur
from vrtspike.io.images import read_rgb, write_png


def run(scenes, *more):
    size = ("--sensor", *map(str, SENSOR))
    moving = ("--moving", str(scenes / "data/train/moving"))
    return run_command(["calibrate", "--static", str(scenes / "static"), *moving, *size, *more])


def test_warp_and_shift_are_measured_and_undone(scenes, tmp_path, capsys):
    status = run(scenes, "--data", str(scenes / "data"), "-o", str(tmp_path))
    calibration = json.loads((tmp_path / "calibration.json").read_text())
    assert max_error(calibration["homography"], SENSOR) < 0.15  # half a pixel of the frame is 0.25
    assert calibration["residual_pixels"] < 0.5
    assert calibration["offset_steps"] == pytest.approx(OFFSET, abs=0.5)
    assert calibration["residual_steps"] < 0.5
    assert 0.95 < calibration["covered"] < 1
    assert read_rgb(tmp_path / "calibration.png").shape == (SENSOR[0], 2 * SENSOR[1], 3)
    out = capsys.readouterr().out
    assert status == 0
    assert "time offset: +6" in out
    before = scenes / "data/train/moving"
    folder = tmp_path / "train/moving"
    assert f"resampled: {folder}\n" in out
    assert (folder / "spike.dat").read_bytes() == (before / "spike.dat").read_bytes()
    recorded = read_exposures(before / EXPOSURE_TABLE)["4"]
    moved = read_exposures(folder / EXPOSURE_TABLE)["4"]
    assert moved.start - recorded.start == round(calibration["offset_steps"])
    assert moved.sharp - recorded.sharp == pytest.approx(calibration["offset_steps"], abs=0.01)
    # The result is read without settings, whatever the ratio of sensor to frame is.
    files = find_sequence(RawFolder(tmp_path), "train/moving")
    assert (files.layout, sensor_size(tmp_path / files.sensor_file)) == ("stream", SENSOR)
    expected = synthesize_blur(film(4, 40, 2 * SENSOR[0], 2 * SENSOR[1], speed=2)[4:15])
    inner = (slice(30, -30), slice(30, -30))
    error = np.abs(read_rgb(folder / "blur/4.png")[inner].astype(int) - expected[inner])
    assert error.mean() < 3


def test_a_poor_calibration_is_not_resampled(scenes, tmp_path, capsys):
    shutil.copytree(scenes / "static", tmp_path / "static")
    frame = read_rgb(tmp_path / "static/blur/1.png")
    shifted = np.concatenate([frame[:, 40:], np.zeros_like(frame[:, :40])], axis=1)
    write_png(tmp_path / "static/blur/1.png", shifted)
    words = ["--static", str(tmp_path / "static"), "--sensor", *map(str, SENSOR)]
    more = ["--data", str(scenes / "data"), "-o", str(tmp_path / "out")]
    assert run_command(["calibrate", *words, *more]) == 1
    out = capsys.readouterr().out
    assert "! frames show 8" in out
    assert "time offset: not measured (--moving)" in out
    assert not (tmp_path / "out/train").exists()
    # Cameras that were moved after the static scene.
    still = film(3, 1, 2 * SENSOR[0], 2 * SENSOR[1])[0]
    write_scene(tmp_path / "before", {"1": still}, simulate_spikes([still] * 30))
    calibration, _ = calibrate_camera(tmp_path / "before", scenes / "data/train/moving", SENSOR)
    assert "moving scene correlate by 0.5" in "".join(calibration.faults)


@pytest.mark.parametrize("moving", ["spikes", "frames"])
def test_a_static_scene_that_moved_is_not_resampled(scenes, tmp_path, moving, capsys):
    steps = film(3, 31, 2 * SENSOR[0], 2 * SENSOR[1], speed=1)
    frames = {"1": steps[0], "2": steps[0]}
    if moving == "frames":
        frames["2"] = steps[3]
    spikes = simulate_spikes(steps[:10] if moving == "spikes" else steps[:1] * 10)
    warped = {name: warped_by_other_camera(frame) for name, frame in frames.items()}
    write_scene(tmp_path / "static", warped, spikes)
    words = ["--static", str(tmp_path / "static"), "--sensor", *map(str, SENSOR)]
    more = ["--data", str(scenes / "data"), "-o", str(tmp_path / "out")]
    assert run_command(["calibrate", *words, *more]) == 1
    out = capsys.readouterr().out
    moved = float(re.search(r"! the static scene moved by (\S+) sensor pixels", out)[1])
    assert moved == pytest.approx(4.5 if moving == "spikes" else 3, rel=0.15)
    assert not (tmp_path / "out/train").exists()


def test_still_scenes_do_not_seem_to_move(scenes, tmp_path):
    assert calibrate_camera(scenes / "static", None, SENSOR)[0].moved_pixels < 0.1
    still = film(3, 1, 2 * SENSOR[0], 2 * SENSOR[1])[0]
    frames = {"1": still, "2": still}
    write_scene(tmp_path / "short", frames, simulate_spikes([still] * 2))
    # There are too few spikes for a verdict; the frames decide.
    assert calibrate_camera(tmp_path / "short", None, SENSOR)[0].moved_pixels < 0.01
    (tmp_path / "short/blur/2.png").unlink()
    assert calibrate_camera(tmp_path / "short", None, SENSOR)[0].moved_pixels is None


@pytest.mark.shared
def test_a_real_pair_warped_and_shifted_is_measured(shared, tmp_path):
    folder = shared / "samples/spk_gopro"
    size = (360, 640)
    spikes = read_spikes(folder / "000226.dat", *size)
    frame = warped_by_other_camera(read_rgb(folder / "000226.png"))
    # About the sharp frame's instant, step 40, the scene hardly moves.
    write_scene(tmp_path / "static", {"1": frame}, spikes[36:45])
    exposures = {"1": Exposure(31, 40, 35.5)}
    write_scene(tmp_path / "moving", {"1": frame}, spikes, exposures)
    calibration, _ = calibrate_camera(tmp_path / "static", tmp_path / "moving", size)
    assert max_error(calibration.homography, size) < 0.5
    assert calibration.offset.offset_steps == pytest.approx(5, abs=0.5)
