"""Frames that were warped and shifted on purpose: are homography and time offset found again?"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import cv2
import numpy as np
import pytest

from tests.data.scenes import film
from vrtspike.commands.main import run_command
from vrtspike.data.exposure import TABLE, Exposure, exposure_table, read_exposures
from vrtspike.data.gate.calibration import apply, calibrate, find_homography
from vrtspike.data.raw.layouts.files import sensor_size
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.spikes import read_spikes, write_spikes
from vrtspike.data.simulation.sensor import simulate_spikes, synthesize_blur
from vrtspike.io.images import read_gray, read_rgb, write_png
from vrtspike.system.errors import DataError

SENSOR = (120, 160)
OFFSET = 6.5
TURNED = np.array([[1.02, 0.03, -9.0], [-0.02, 1.03, 4.0], [4e-5, -3e-5, 1.0]])
"""From pixels of a frame to those of one by another camera."""


def seen_by_other_camera(frame):
    return cv2.warpPerspective(
        frame, TURNED, frame.shape[1::-1], flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )


def miss(found, sensor, scale=2):
    """Farthest that a point of the sensor is from where it belongs, in sensor pixels."""
    y, x = np.mgrid[8 : sensor[0] - 8 : 8, 8 : sensor[1] - 8 : 8]
    points = np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    half = (scale - 1) / 2
    to_frame = np.array([[scale, 0, half], [0, scale, half], [0, 0, 1.0]])
    here, there = np.asarray(found) @ points, TURNED @ to_frame @ points
    return np.linalg.norm(here[:2] / here[2] - there[:2] / there[2], axis=0).max() / scale


def write_scene(folder, frames, spikes, exposures=None):
    for name, frame in frames.items():
        write_png(folder / "blur" / f"{name}.png", frame)
    write_spikes(folder / "spike.dat", spikes)
    if exposures:
        (folder / TABLE).write_text(exposure_table(exposures))


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A static and a moving scene; exposures are said OFFSET steps too early."""
    root = tmp_path_factory.mktemp("scenes")
    size = (2 * SENSOR[0], 2 * SENSOR[1])
    still = film(3, 1, *size)[0]
    write_scene(root / "static", {"1": seen_by_other_camera(still)}, simulate_spikes([still] * 30))
    frames = film(4, 40, *size, speed=2)
    blurry, exposures = {}, {}
    for first in (4, 16):
        # Means of frames at steps 8 n: those of 88 spike steps that begin 3.5 earlier.
        start = int(8 * first - 3.5 - OFFSET)
        blurry[str(first)] = seen_by_other_camera(synthesize_blur(frames[first : first + 11]))
        exposures[str(first)] = Exposure(start, start + 88, start + 43.5)
    write_scene(root / "data/train/moving", blurry, simulate_spikes(frames), exposures)
    return root


def run(scenes, *more):
    size = ("--sensor", *map(str, SENSOR))
    moving = ("--moving", str(scenes / "data/train/moving"))
    return run_command(["calibrate", "--static", str(scenes / "static"), *moving, *size, *more])


def test_warp_and_shift_are_found_again_and_undone(scenes, tmp_path, capsys):
    status = run(scenes, "--data", str(scenes / "data"), "-o", str(tmp_path))
    found = json.loads((tmp_path / "calibration.json").read_text())
    assert miss(found["homography"], SENSOR) < 0.15  # half a pixel of the frame is 0.25
    assert found["residual_pixels"] < 0.5
    assert found["offset_steps"] == pytest.approx(OFFSET, abs=0.5)
    assert found["residual_steps"] < 0.5
    assert 0.95 < found["covered"] < 1
    assert read_rgb(tmp_path / "calibration.png").shape == (SENSOR[0], 2 * SENSOR[1], 3)
    out = capsys.readouterr().out
    assert status == 0
    assert "time offset: +6" in out
    before, folder = scenes / "data/train/moving", tmp_path / "train/moving"
    assert f"resampled: {folder}\n" in out
    assert (folder / "spike.dat").read_bytes() == (before / "spike.dat").read_bytes()
    said, moved = (read_exposures(place / TABLE)["4"] for place in (before, folder))
    assert moved.start - said.start == round(found["offset_steps"])
    assert moved.sharp - said.sharp == pytest.approx(found["offset_steps"], abs=0.01)
    # It is read as it stands, whatever the sensor's size is to that of the frames.
    files = find_sequence(tmp_path, "train/moving", "blur")
    assert (files.layout, sensor_size(tmp_path / files.sensor_file)) == ("stream", SENSOR)
    expected = synthesize_blur(film(4, 40, 2 * SENSOR[0], 2 * SENSOR[1], speed=2)[4:15])
    inner = (slice(30, -30), slice(30, -30))
    error = np.abs(read_rgb(folder / "blur/4.png")[inner].astype(int) - expected[inner])
    assert error.mean() < 3


def test_scenes_that_do_not_tell_are_refused(scenes, tmp_path):
    gray = np.full((2 * SENSOR[0], 2 * SENSOR[1]), 100, np.float32)
    with pytest.raises(DataError, match=r"0 features .* many details"):
        find_homography(gray, gray[: SENSOR[0], : SENSOR[1]])
    still = film(3, 1, 2 * SENSOR[0], 2 * SENSOR[1])[0]
    negative = read_gray(scenes / "static/blur/1.png").astype(np.float32)
    negative[:, 110:] = np.clip(255 - 2 * (negative[:, 110:] - 64), 0, 255)
    rate = simulate_spikes([still] * 30).mean(axis=0, dtype=np.float32)
    with pytest.raises(DataError, match=r"\d+ features .* but not their pixels"):
        find_homography(negative, rate)
    exposures = {"1": Exposure(100, 188, 144)}
    write_scene(tmp_path / "still", {"1": still}, simulate_spikes([still] * 50), exposures)
    with pytest.raises(DataError, match="nothing moves"):
        calibrate(scenes / "static", tmp_path / "still", SENSOR)
    late = Exposure(70, 158, 114)
    moving = scenes / "data/train/moving"
    shutil.copytree(moving, tmp_path / "late", ignore=shutil.ignore_patterns("16.png"))
    (tmp_path / "late" / TABLE).write_text(exposure_table({"4": late}))
    with pytest.raises(DataError, match="--most-steps"):
        calibrate(scenes / "static", tmp_path / "late", SENSOR, most_steps=30)
    (tmp_path / "still" / TABLE).write_text(exposure_table({"2": exposures["1"]}))
    with pytest.raises(DataError, match=r"found 1 in only one of blur/"):
        calibrate(scenes / "static", tmp_path / "still", SENSOR)


def test_a_poor_calibration_is_said_and_nothing_resampled(scenes, tmp_path, capsys):
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
    found, _ = calibrate(tmp_path / "before", scenes / "data/train/moving", SENSOR)
    assert "moving scene correlate by 0.5" in "".join(found.faults)


@pytest.mark.parametrize("what", ["spikes", "frames"])
def test_a_static_scene_that_moved_is_told_and_nothing_resampled(scenes, tmp_path, what, capsys):
    steps = film(3, 31, 2 * SENSOR[0], 2 * SENSOR[1], speed=1)
    frames = {"1": steps[0], "2": steps[0]}
    if what == "frames":
        frames["2"] = steps[3]
    spikes = simulate_spikes(steps[:10] if what == "spikes" else steps[:1] * 10)
    write_scene(
        tmp_path / "static", {n: seen_by_other_camera(frame) for n, frame in frames.items()}, spikes
    )
    words = ["--static", str(tmp_path / "static"), "--sensor", *map(str, SENSOR)]
    more = ["--data", str(scenes / "data"), "-o", str(tmp_path / "out")]
    assert run_command(["calibrate", *words, *more]) == 1
    out = capsys.readouterr().out
    moved = float(re.search(r"! the static scene moved by (\S+) sensor pixels", out)[1])
    assert moved == pytest.approx(4.5 if what == "spikes" else 3, rel=0.15)
    assert not (tmp_path / "out/train").exists()


def test_still_scenes_do_not_seem_to_move(scenes, tmp_path):
    assert calibrate(scenes / "static", None, SENSOR)[0].moved_pixels < 0.1
    still = film(3, 1, 2 * SENSOR[0], 2 * SENSOR[1])[0]
    frames = {"1": still, "2": still}
    write_scene(tmp_path / "short", frames, simulate_spikes([still] * 2))
    # Of so few spikes nothing is said; the frames are.
    assert calibrate(tmp_path / "short", None, SENSOR)[0].moved_pixels < 0.01
    (tmp_path / "short/blur/2.png").unlink()
    assert calibrate(tmp_path / "short", None, SENSOR)[0].moved_pixels is None


def test_a_recording_without_sharp_frames_needs_no_sharp_instant(scenes, tmp_path):
    source = tmp_path / "data/train/moving"
    shutil.copytree(scenes / "data/train/moving", source)
    expected, _ = calibrate(scenes / "static", source, SENSOR)
    said = read_exposures(source / TABLE)
    lines = [f"0{name},{each.start},{each.stop}" for name, each in said.items()]
    (source / TABLE).write_text("\n".join(["frame,start,stop", *lines, ""]))
    found, _ = calibrate(scenes / "static", source, SENSOR)
    assert found == expected
    (folder,) = apply(found, tmp_path / "data", tmp_path / "out")
    for name, each in read_exposures(folder / TABLE).items():
        middle = (said[name].start + said[name].stop) / 2
        assert each.sharp == pytest.approx(middle + found.offset_steps)
    # With sharp frames nobody but the user knows what they show.
    shutil.copytree(source / "blur", source / "sharp")
    with pytest.raises(DataError, match=r"found the columns frame, start, stop, expected .* sharp"):
        apply(found, tmp_path / "data", tmp_path / "out")


def test_recordings_that_cannot_be_resampled_are_named_and_nothing_is_written(scenes, tmp_path):
    shutil.copytree(scenes / "static", tmp_path / "static")
    write_png(tmp_path / "static/blur/2.png", np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(DataError, match=r"2\.png: 8 x 8, expected .* 240 x 320"):
        calibrate(tmp_path / "static", None, SENSOR)
    found, _ = calibrate(scenes / "static", None, SENSOR)
    source, output = tmp_path / "data/train/moving", tmp_path / "out"
    shutil.copytree(scenes / "data/train/moving", source)
    exposures = read_exposures(source / TABLE)
    for offset, frames in ((-40.0, "4"), (160.0, "16"), (-160.0, "4, 16")):
        with pytest.raises(DataError, match=rf"{offset:.2f} steps .* of {frames} leave the 320"):
            apply(replace(found, offset_steps=offset), tmp_path / "data", output)
    assert apply(found, tmp_path / "data", output) == [output / "train/moving"]
    (source / "blur/4.png").unlink()
    (source / TABLE).write_text(exposure_table({"16": exposures["16"]}))
    apply(found, tmp_path / "data", output)
    assert [path.name for path in (output / "train/moving/blur").iterdir()] == ["16.png"]
    source.rename(source.with_name("renamed"))
    with pytest.raises(DataError, match=r"out/train/moving: no sequence of .* has this name"):
        apply(found, tmp_path / "data", output)
    (source.with_name("renamed") / "spike.dat").unlink()
    with pytest.raises(DataError, match=r"renamed/spike\.dat: no such file"):
        apply(found, tmp_path / "data", tmp_path / "other")


@pytest.mark.shared
def test_a_real_pair_warped_and_shifted_is_found_again(shared, tmp_path):
    folder = shared / "samples/spk_gopro"
    size = (360, 640)
    spikes = read_spikes(folder / "000226.dat", *size)
    frame = seen_by_other_camera(read_rgb(folder / "000226.png"))
    # About the sharp frame's instant, step 40, the scene hardly moves.
    write_scene(tmp_path / "static", {"1": frame}, spikes[36:45])
    exposures = {"1": Exposure(31, 40, 35.5)}
    write_scene(tmp_path / "moving", {"1": frame}, spikes, exposures)
    found, _ = calibrate(tmp_path / "static", tmp_path / "moving", size)
    assert miss(found.homography, size) < 0.5
    assert found.offset_steps == pytest.approx(5, abs=0.5)
