"""The checks of one sequence: what they find, and what a user's data may suffer from."""

from __future__ import annotations

import os
import shutil
import tempfile
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.data.conftest import SEQUENCES
from tests.data.prepared import check
from tests.data.scenes import film
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.spikes import read_spikes, write_spikes
from vrtspike.data.raw.survey import survey
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.io.images import read_rgb, write_png

SPLIT, NAME = "train", "GOPR0001_11_00"


def only_fault(manifest):
    assert len(manifest["faults"]) == 1, manifest["faults"]
    return manifest["faults"][0]


def test_manifest_of_a_sound_sequence(pristine_raw_data):
    manifest = check(pristine_raw_data)
    assert (manifest["faults"], manifest["source_version"]) == ([], "v")
    assert (manifest["rgb_size"], manifest["spike_size"]) == ([96, 128], [48, 64])
    assert [len(entry["digest"]) for entry in manifest["files"]] == [64] * 9
    assert [frame["name"] for frame in manifest["frames"]] == ["000001", "000002", "000003"]
    exposure = manifest["frames"][1]["spikes"]
    assert exposure["path"] == f"{SPLIT}/{NAME}/spike/000002.dat"
    assert (exposure["start"], exposure["steps"]) == (0, 88)
    assert exposure["center"] == pytest.approx(40, abs=2)
    assert exposure["correlation"] > 0.8
    assert exposure["sharp"] == 40


def test_stream_is_divided_among_the_frames(dataset):
    folder = dataset / SPLIT / NAME
    parts = sorted((folder / "spike").iterdir())
    whole = b"".join(path.read_bytes() for path in parts)
    shutil.rmtree(folder / "spike")
    (folder / "spike.dat").write_bytes(whole)
    manifest = check(dataset)
    assert manifest["faults"] == []
    assert [f["spikes"]["start"] for f in manifest["frames"]] == [0, 88, 176]
    (folder / "spike.dat").write_bytes(whole[: -48 * 64 // 8])
    assert "263 steps cannot be divided evenly among 3" in only_fault(check(dataset))


def test_every_fault_of_a_sequence_is_listed(dataset):
    folder = dataset / SPLIT / NAME
    (folder / "sharp" / "000001.png").unlink()
    (folder / "blur" / "000002.png").write_bytes(b"broken")
    spike = folder / "spike" / "000003.dat"
    spike.write_bytes(spike.read_bytes()[:-1])
    shutil.copy(folder / "spike" / "000001.dat", folder / "spike" / "000009.dat")
    faults = check(dataset)["faults"]
    assert len(faults) == 4
    text = "\n".join(faults)
    assert "frame 000001 is in blur, spike but has no partner in sharp" in text
    assert "frame 000009 is in spike but has no partner in blur, sharp" in text
    assert "blur/000002.png: not a readable image" in text
    assert "spike/000003.dat: 33791 bytes are not a whole number of 48 x 64" in text


def test_shifted_windows_are_noticed(dataset):
    """Spikes that start three source frames late: right scene, wrong time."""
    folder = dataset / SPLIT / NAME
    paths = sorted((folder / "spike").iterdir())
    whole = np.concatenate([read_spikes(path, 48, 64) for path in paths])
    for number, path in enumerate(paths[:2]):
        write_spikes(path, whole[88 * number + 24 :][:88])
    for path in folder.glob("*/000003.*"):
        path.unlink()
    fault = only_fault(check(dataset))
    assert "lie at step 1" in fault
    assert "expected 40.0 +- 11" in fault


@pytest.mark.parametrize("suffix", ["dat", "npz"])
def test_a_long_exposure_is_never_unpacked_as_a_whole(tmp_path, suffix):
    folder, steps = tmp_path / "train" / "long", 4_000
    for part in ("blur", "sharp"):
        write_png(folder / part / "000001.png", film(2, 1)[0])
    spikes = np.zeros((steps, 48, 64), np.uint8)
    spikes[::3] = 1
    path = folder / "spike" / f"000001.{suffix}"
    path.parent.mkdir()
    write_spikes(path, spikes) if suffix == "dat" else np.savez(path, spk=spikes)
    tracemalloc.start()
    (frame,) = check(tmp_path, "train/long")["frames"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (frame["spikes"]["steps"], frame["spikes"]["count"]) == (steps, spikes.sum())
    assert peak < spikes.nbytes / 2


def test_sensor_size_that_does_not_fit_is_one_fault(dataset):
    fault = only_fault(check(dataset, spike_size=(64, 48)))
    assert "64 x 48 does not fit frames of 96 x 128" in fault
    (dataset / "config.yaml").write_text("spike_h: 64\nspike_w: 48\n")
    assert "64 x 48 does not fit" in only_fault(check(dataset))
    assert check(dataset, spike_size=(48, 64))["faults"] == []


@pytest.mark.parametrize(
    ("frames", "is_assessable"),
    [
        ([film(1, 1)[0]] * 23, True),
        ([np.full((96, 128, 3), 30, np.uint8)] * 23, False),
        (film(2, 23, height=32, width=32), False),
    ],
    ids=["still", "flat", "tiny"],
)
def test_still_flat_and_tiny_scenes_are_not_refused(tmp_path, frames, is_assessable):
    write_sequence(tmp_path / "train/a", frames, frames_per_exposure=11)
    manifest = check(tmp_path, "train/a")
    alignments = [frame["spikes"] for frame in manifest["frames"]]
    # Nothing is said of a centre that cannot be told.
    assert (manifest["faults"], [entry["center"] for entry in alignments]) == ([], [None, None])
    assert [entry["correlation"] is not None for entry in alignments] == [is_assessable] * 2


def test_a_sharp_frame_is_known_by_its_contents_unless_it_is_of_one_colour(dataset):
    folder = dataset / SEQUENCES[0] / "sharp"
    picture = cv2.imread(str(folder / "000001.png"))
    cv2.imwrite(str(folder / "000002.png"), picture, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    write_png(folder / "000003.png", np.zeros((96, 128, 3), np.uint8))
    first, second, black = (frame["picture"] for frame in check(dataset)["frames"])
    assert first == second != black == ""


# --- What a user's data may suffer from -----------------------------------------------------------


def doubled(path):
    path.write_bytes(2 * path.read_bytes())


def shuffled(path):
    spikes = read_spikes(path, 48, 64)
    write_spikes(path, np.random.default_rng(0).permutation(spikes))


def of_another_sequence(path):
    shutil.copy(path.parents[2] / "GOPR0002_11_00/spike" / path.name, path)


def deep(path):
    path.write_bytes(cv2.imencode(".png", read_rgb(path).astype(np.uint16) * 257)[1].tobytes())


def of_another_size(path):
    write_png(path, np.ascontiguousarray(read_rgb(path)[:, :64]))


def lost(path):
    path.unlink()
    path.symlink_to("nowhere.png")


def a_pipe(path):
    for file in path.parent.glob(f"{path.stem}.*"):
        file.unlink()
    os.mkfifo(path)


def missing_everywhere(path):
    for file in path.parents[1].glob(f"*/{path.stem}.*"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "file", "fault"),
    [
        (doubled, "spike/000002.dat", "{file} holds 176 steps, others 88, and its sharp"),
        (shuffled, "spike/000002.dat", "{file}: the spikes follow each other as by chance"),
        (of_another_sequence, "spike/000002.dat", "{file}: the spikes do not show"),
        (deep, "sharp/000002.png", "{file}: 16 bits per channel"),
        (of_another_size, "sharp/000002.png", "{file}: 96 x 64 pixels, but"),
        (lost, "sharp/000002.png", "{file}: cannot be read (No such file"),
        (a_pipe, "sharp/000001.png", "{file}: cannot be read (found a pipe (FIFO), expected a"),
        (a_pipe, "spike/000002.dat", "{file}: cannot be read (found a pipe (FIFO), expected a"),
        (a_pipe, "spike/000003.npz", "an array spk (T, H, W): found a pipe (FIFO), expected a"),
        (missing_everywhere, "blur/000002.png", "frame numbers jump from 000001 to 000003"),
    ],
)
def test_each_damage_is_found_and_named(dataset, damage, file, fault):
    damage(dataset / SPLIT / NAME / file)
    assert any(fault.format(file=file) in message for message in check(dataset)["faults"])


@contextmanager
def ordinary_user():
    """Give up the powers of root, which ignore permissions, for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def reachable(pristine_raw_data):
    """A copy of the data set in a folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = shutil.copytree(pristine_raw_data, Path(name) / "dataset")
        root.chmod(0o755)
        yield root
        for path in root.rglob("*"):
            path.chmod(0o755)


def test_unreadable_files_and_folders_are_named_with_all_others(reachable):
    file = reachable / SPLIT / NAME / "spike/000002.dat"
    file.chmod(0)
    (reachable / SEQUENCES[1] / "sharp").chmod(0)
    shutil.rmtree(reachable / SEQUENCES[2] / "spike")
    with ordinary_user():
        fault = only_fault(check(reachable))
        faults = survey(RawFolder(reachable), ["train", "test"])["excluded"]
    assert fault == f"{file}: cannot be read (Permission denied)"
    assert f"{SEQUENCES[1]}/sharp: cannot be listed (Permission denied)" in faults[SEQUENCES[1]][0]
    assert faults[SEQUENCES[2]][0].startswith("no spikes")
