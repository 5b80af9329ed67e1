"""Sequences simulated from sharp frames: exposures, gamma, folders and invalid input."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.prepared import check
from tests.data.scenes import film
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sensor import SimulatedSensor, simulate_spikes, synthesize_blur
from vrtspike.data.simulation.sequence import frame_files, frame_folders, write_sequence
from vrtspike.io.images import read_rgb, write_png
from vrtspike.system.errors import DataError


def video(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 16, 24, 3), dtype=np.uint8)


def test_exposures_abut_and_the_sensor_runs_through(tmp_path):
    frames = video(11)
    calls = []
    written = write_sequence(
        tmp_path / "s",
        frames,
        frames_per_exposure=3,
        sensor=SimulatedSensor(SEED=5),
        progress=calls.append,
    )
    assert (written, calls) == ((3, 2), [*range(1, 12)])
    whole = simulate_spikes(frames, seed=5)
    for n in range(3):
        part = frames[3 * n : 3 * n + 3]
        name = f"{n + 1:06d}"
        blur = read_rgb(tmp_path / "s" / "blur" / f"{name}.png")
        np.testing.assert_array_equal(blur, synthesize_blur(part))
        np.testing.assert_array_equal(read_rgb(tmp_path / "s" / "sharp" / f"{name}.png"), part[1])
        spikes = read_spikes(tmp_path / "s" / "spike" / f"{name}.dat", 8, 12)
        np.testing.assert_array_equal(spikes, whole[24 * n : 24 * n + 24])


def test_a_sensor_of_another_scale_is_told_to_those_who_read(tmp_path):
    for scale in (4, 2):
        how = SimulatedSensor(DOWNSCALE=scale)
        write_sequence(tmp_path / "train/s", film(1, 22), frames_per_exposure=11, sensor=how)
        manifest = check(tmp_path, "train/s")
        assert (manifest["faults"], manifest["spike_size"]) == ([], [96 // scale, 128 // scale])
    other = tmp_path / "train/s/config.yaml"
    other.write_text("camera: mine\n")
    write_sequence(tmp_path / "train/s", film(1, 22), frames_per_exposure=11)
    assert other.read_text() == "camera: mine\n"


def test_gamma_goes_to_its_own_folder(tmp_path):
    frames = video(3)
    write_sequence(tmp_path, frames, frames_per_exposure=3, sensor=SimulatedSensor(GAMMA=2.2))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["blur_gamma", "sharp", "spike"]
    blur = read_rgb(tmp_path / "blur_gamma" / "000001.png")
    np.testing.assert_array_equal(blur, synthesize_blur(frames, 2.2))


@pytest.mark.parametrize(
    ("frames", "length", "fault"),
    [
        (video(2), 3, "2 frames do not fill one exposure of 3"),
        (
            [*video(2), video(1)[0, :8]],
            1,
            r"frame of \(4, 12\) pixels .* after frames of \(8, 12\)",
        ),
        (video(2)[:, :, :23], 1, "frames of 16 x 23, expected .* multiples of 2.* cut"),
        (video(2), 0, "at least 1 is needed"),
    ],
)
def test_frames_that_give_no_exposure_are_refused_and_leave_what_was_there(
    tmp_path, frames, length, fault
):
    write_sequence(tmp_path, video(6), frames_per_exposure=1)
    with pytest.raises(DataError, match=fault):
        write_sequence(tmp_path, frames, frames_per_exposure=length)
    assert len(list(tmp_path.glob("*/*"))) == 3 * 6


def write_frames(folder, *names):
    for name in names:
        write_png(folder / name, video(1)[0])
    return folder


def test_a_folder_of_frames_in_the_order_of_their_numbers(tmp_path):
    names = [f"frame_{number}.png" for number in range(11)]
    write_frames(tmp_path, *names)
    for stray in ("notes.txt", "._frame_0.png"):
        (tmp_path / stray).write_text("stray")
    assert [path.name for path in frame_files(tmp_path)] == names


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ([], "no folder of frames"),
        (["other/1.png"], "no folder of frames"),
        (
            [f"frame_{number:04d}.png" for number in (1, 2, 3, 5, 6, 9, 10)],
            r"frame_0003 to frame_0005, elsewhere in steps of 1 \(2 such places\): .* folder",
        ),
        (["1.png", "01.bmp"], r"from (01 to 1|1 to 01), .* there twice"),
    ],
)
def test_a_folder_in_which_frames_are_missing_is_refused(tmp_path, names, fault):
    with pytest.raises(DataError, match=fault):
        frame_files(write_frames(tmp_path / "in", *names))


@pytest.mark.shared
def test_real_frames_pass_ingestion(shared, tmp_path):
    frames = map(read_rgb, frame_files(shared / "samples" / "sharp_sequence"))
    assert write_sequence(tmp_path / "train" / "s", frames, frames_per_exposure=3) == (3, 1)
    manifest = check(tmp_path, "train/s")
    assert manifest["faults"] == []
    assert (manifest["rgb_size"], manifest["spike_size"]) == ([436, 1024], [218, 512])
    spikes = [frame["spikes"] for frame in manifest["frames"]]
    assert [entry["steps"] for entry in spikes] == [24, 24, 24]
    assert [entry["center"] for entry in spikes] == pytest.approx([8, 8, 8], abs=1)


def test_folders_of_frames_in_the_known_trees(tmp_path):
    names = {
        "train/GOPR0372_07_00": ("train", "GOPR0372_07_00", 7),
        "train/002/occ008.320": ("train", "002_occ008.320", None),
        "test/Type1/TEST01_003_f0433": ("test", "Type1_TEST01_003_f0433", None),
        "plain": ("valid", "plain", None),
        "linked": ("valid", "linked", None),
    }
    for name in list(names)[:-1]:
        write_frames(tmp_path / name, "0000.png")
    (tmp_path / "linked").symlink_to(tmp_path / "plain")
    (tmp_path / "train/loop").symlink_to(tmp_path)
    for foreign in (".thumbnails/normal", "train/@eaDir"):
        write_frames(tmp_path / foreign, "0000.png")
    write_frames(tmp_path / "train", "._0000.png")
    folders = frame_folders(tmp_path, "valid")
    assert {(f.split, f.sequence, f.frames_per_exposure) for f in folders} == set(names.values())
    (single,) = frame_folders(tmp_path / "plain")
    assert (single.split, single.sequence) == ("train", "plain")
    write_frames(tmp_path / "train/002_occ008.320", "0000.png")
    with pytest.raises(DataError, match=r"would become train/002_occ008\.320"):
        frame_folders(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no folders of frames"):
        frame_folders(tmp_path / "empty")
