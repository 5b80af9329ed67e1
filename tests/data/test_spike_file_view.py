"""`vrtspike show`: statistics, plots and videos of spike files, mismatching frames."""

from __future__ import annotations

import random
import shutil

import cv2
import numpy as np
import pytest

from tests.data.scenes import film
from vrtspike.commands.main import run_command
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.data.raw.spikes import write_spikes
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.data.spike_file_view import (
    describe_view,
    draw_spikes,
    spike_file_faults,
    view_spike_file,
    write_spike_video,
)
from vrtspike.data.video import read_video
from vrtspike.io.images import write_png
from vrtspike.system.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def exposure(tmp_path_factory):
    """Five source frames of 48 x 64 as spikes, of a sensor, and the middle one."""
    folder = tmp_path_factory.mktemp("exposure")
    frames = film(1, 6, 96, 128, speed=6)
    spikes = simulate_spikes(frames).view(np.uint8)[:40]
    spikes[:, 0, 5] = 0
    spikes[:, 0, 6] = 1
    write_spikes(folder / "a.dat", spikes)
    (folder / "config.yaml").write_text("spike_h: 48\nspike_w: 64\n")
    write_png(folder / "a.png", frames[2])
    return folder, spikes


def test_rates_and_silent_pixels_are_described(exposure):
    folder, spikes = exposure
    lines = describe_view(view_spike_file(folder / "a.dat"))
    mean = spikes.mean()
    rate = spikes.mean(axis=0)
    assert lines[0] == f"{folder / 'a.dat'}: 40 steps of 48 x 64"
    assert lines[1] == (
        f"mean rate: {mean:.3f} spikes per pixel and step (once in {1 / mean:.1f} steps); 1 % of "
        f"the pixels below {np.percentile(rate, 1):.3f}, 1 % above {np.percentile(rate, 99):.3f}"
    )
    silent = np.count_nonzero(spikes.sum(axis=0) == 0)
    assert silent >= 1
    assert lines[2].startswith(f"pixels that never fire: {silent} of 3072 (")
    assert lines[3].startswith("order of the steps: a pixel fires twice in a row 0.0")
    assert spike_file_faults(view_spike_file(folder / "a.dat")) == []
    assert len(lines) == 4


def test_a_frame_is_compared_and_gives_half_its_size_where_nothing_else_does(exposure, tmp_path):
    folder, spikes = exposure
    view = view_spike_file(folder / "a.dat", frame=folder / "a.png", layout=SPK_GOPRO)
    line = describe_view(view)[-1]
    assert line.startswith(f"correlation with the frame: {view.alignment.correlation:.2f} at step")
    assert line.endswith("of 40 (expected at 16 +- 5)")
    for layout in (None, LAYOUTS["stream"]):  # which nobody guesses
        view = view_spike_file(folder / "a.dat", frame=folder / "a.png", layout=layout)
        line = describe_view(view)[-1]
        assert line.endswith("of 40")
    with pytest.raises(DataError, match=r"a\.dat: found 40 steps, expected 137"):
        view_spike_file(folder / "a.dat", layout=LAYOUTS["s_sdm"])
    assert view.alignment.correlation > 0.8
    assert view.alignment.center == pytest.approx(16, abs=3)
    write_spikes(tmp_path / "b.dat", spikes)
    with pytest.raises(DataError, match=r"nothing tells the sensor's size; give its rows"):
        view_spike_file(tmp_path / "b.dat")
    assert view_spike_file(tmp_path / "b.dat", frame=folder / "a.png").sensor == (48, 64)


def test_another_scene_is_named(exposure, tmp_path):
    folder, _ = exposure
    write_png(tmp_path / "other.png", film(9, 1, 96, 128)[0])
    view = view_spike_file(folder / "a.dat", frame=tmp_path / "other.png")
    (message,) = spike_file_faults(view)
    assert "do not show the frame" in message
    assert "0.3 needed" in message
    with pytest.raises(DataError, match=r"sensor size 64 x 48 does not fit.*check the sensor's"):
        view_spike_file(folder / "a.dat", (64, 48), frame=folder / "a.png")


def test_a_frame_that_lies_beside_its_spikes_is_not_called_still(exposure, tmp_path):
    folder, _ = exposure
    frame = np.roll(cv2.imread(str(folder / "a.png"))[..., ::-1], 8, axis=0)
    write_png(tmp_path / "moved.png", frame)
    view = view_spike_file(folder / "a.dat", frame=tmp_path / "moved.png")
    assert "moved by 4 rows down" in spike_file_faults(view)[0]
    assert describe_view(view)[-1].endswith("of 40")


def test_a_part_of_a_file_is_viewed_by_start_and_steps(exposure):
    folder, spikes = exposure
    view = view_spike_file(folder / "a.dat", start=8, steps=4)
    np.testing.assert_allclose(view.rate, spikes[8:12].mean(axis=0))
    assert "40 steps of 48 x 64, 4 from step 8 on are looked at" in describe_view(view)[0]
    placed = view_spike_file(folder / "a.dat", start=8, frame=folder / "a.png")
    step = float(describe_view(placed)[-1].split("at step ")[1].split()[0])
    assert step == pytest.approx(16, abs=3)  # of the whole file
    with pytest.raises(DataError, match="start 40: the file holds steps 0 to 39"):
        view_spike_file(folder / "a.dat", start=40)
    with pytest.raises(DataError, match=r"steps 8 to 47 asked for, the file holds 40"):
        view_spike_file(folder / "a.dat", start=8, steps=40)


def test_the_picture_shows_what_was_read(exposure, tmp_path):
    folder, _ = exposure
    draw_spikes(view_spike_file(folder / "a.dat", frame=folder / "a.png"), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    placed = view_spike_file(folder / "a.dat", start=8, frame=folder / "a.png")
    draw_spikes(placed, tmp_path / "later.svg")
    step = round(8 + placed.alignment.center)
    assert f">9 steps about the sharp instant ({step})<" in (tmp_path / "later.svg").read_text()
    for words in (
        ">a.dat<", ">mean rate of 40 steps<", ">9 steps about the sharp instant (", ">frame, corr",
        ">steps 0 to 8<", ">steps 31 to 39<", ">spikes of row 24<", ">correlation with the frame<",
    ):  # fmt: skip
        assert words in text, words
    for start, instant in (
        (8, "the expected instant (16)"),
        (20, "the middle (30)"),  # the expected one is not among the steps
    ):
        view = view_spike_file(folder / "a.dat", start=start, layout=SPK_GOPRO)
        draw_spikes(view, tmp_path / "part.svg")
        assert f">9 steps about {instant}<" in (tmp_path / "part.svg").read_text()
    draw_spikes(view_spike_file(folder / "a.dat", start=20), tmp_path / "b.png")
    picture = cv2.imread(str(tmp_path / "b.png"))
    assert picture.shape[1] == 1100


def test_the_video_moves_a_window_of_nine_steps(exposure, tmp_path):
    folder, spikes = exposure
    write_spike_video(view_spike_file(folder / "a.dat"), tmp_path / "a.mp4")
    frames = list(read_video(tmp_path / "a.mp4"))
    assert len(frames) == 40 - 9 + 1
    assert frames[0].shape == (480, 640, 3)
    white = np.percentile(spikes.mean(axis=0), 99.5)
    for place in (0, 17, 31):
        expected = np.clip(spikes[place : place + 9].mean(axis=0) / white, 0, 1) * 255
        shown = frames[place].mean(axis=2).reshape(48, 10, 64, 10).mean(axis=(1, 3))
        assert np.abs(shown - expected).mean() < 2.5
    assert np.abs(frames[0].astype(int) - frames[31]).mean() > 10


def test_columns_of_a_head_are_left_out_unless_the_frame_has_them(tmp_path):
    frames = film(4, 3, 500, 832, speed=2)
    write_spikes(tmp_path / "a.dat", simulate_spikes(frames)[:16])
    write_png(tmp_path / "wide.png", frames[1])
    write_png(tmp_path / "narrow.png", frames[1][:, :800].copy())
    for name, columns in (("wide.png", 416), ("narrow.png", 400)):
        view = view_spike_file(tmp_path / "a.dat", (250, 416), tmp_path / name)
        assert view.spikes.shape == (16, 250, columns)
        assert view.alignment.correlation > 0.8
    (first, *_) = describe_view(view)
    assert first.endswith("16 steps of 250 x 416 (400 of them picture)")
    assert view_spike_file(tmp_path / "a.dat", (250, 416)).spikes.columns == 400


@pytest.mark.shared
def test_real_files_that_are_cut_or_shuffled(shared, tmp_path):
    samples = shared / "samples"
    file, frame = samples / "spk_gopro/000226.dat", samples / "spk_gopro/000226.png"
    view = view_spike_file(file, frame=frame, layout=SPK_GOPRO)
    assert spike_file_faults(view) == []
    assert view.alignment.center == pytest.approx(40, abs=1)
    assert describe_view(view)[-1].endswith("of 88 (expected at 40 +- 11)")
    size = 360 * 640 // 8
    content = file.read_bytes()
    steps = [content[i : i + size] for i in range(0, len(content), size)]
    changed = tmp_path / "changed.dat"
    changed.write_bytes(b"".join(steps[:32]))
    assert (
        "may be cut" in describe_view(view_spike_file(changed, frame=frame, layout=SPK_GOPRO))[-1]
    )
    random.Random(0).shuffle(steps)
    changed.write_bytes(b"".join(steps))
    (message,) = spike_file_faults(view_spike_file(changed, frame=frame))
    assert "the steps are shuffled" in message
    changed.write_bytes(content[:-1])
    with pytest.raises(DataError, match="the file is cut"):
        view_spike_file(changed, (360, 640))


def test_steps_and_places_that_cannot_be_are_refused(exposure):
    folder, _ = exposure
    with pytest.raises(DataError, match=r"none\.dat: no such file"):
        view_spike_file(folder / "none.dat")
    with pytest.raises(ConfigError, match=r"--output: found a\.bmp, expected a folder, or a file"):
        run_command(["show", str(folder / "a.dat"), "-o", "a.bmp"])


def test_a_chinese_name_leaves_no_warnings_and_a_folder_may_be_named(exposure, tmp_path, recwarn):
    path = tmp_path / "\u5e8f\u5217.dat"
    shutil.copy(exposure[0] / "config.yaml", tmp_path)
    path.write_bytes((exposure[0] / "a.dat").read_bytes())
    assert run_command(["show", str(path), "-o", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / f"{path.stem}_spikes.png").is_file()
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.dat", r"nothing\.dat: no such file; expected a spike file"),
        ("nothing.npz", r"nothing\.npz: no such file; expected a spike file"),
        ("", "found a folder, expected a spike file"),
    ],
)
def test_a_missing_file_is_told_before_its_size_is_asked_for(tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        run_command(["show", str(tmp_path / name)])
