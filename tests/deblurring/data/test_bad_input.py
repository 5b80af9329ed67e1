"""What a user's data may suffer from: each damage is found, named, and reported with all others."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.deblurring.data.conftest import SEQUENCES
from tests.deblurring.data.prepared import check, checked
from vrtspike.deblurring.data.gate.accept import accept
from vrtspike.deblurring.data.raw.layouts.registry import find_sequence
from vrtspike.deblurring.data.raw.spikes import read_spikes, write_spikes
from vrtspike.deblurring.data.raw.survey import survey
from vrtspike.deblurring.data.raw.versions import source_version
from vrtspike.errors import DataError
from vrtspike.io.files import write_json
from vrtspike.io.images import read_rgb, write_png

SPLIT, NAME = "train", "GOPR0001_11_00"


def ingest(root, name=SEQUENCES[0], **options):
    return check(root, name, **options)


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


@pytest.mark.parametrize(
    ("damage", "file", "fault"),
    [
        (doubled, "spike/000002.dat", " holds 176 spike frames, others 88, and its sharp frame"),
        (
            shuffled,
            "spike/000002.dat",
            " (steps from 0): the spikes follow each other as by chance",
        ),
        (of_another_sequence, "spike/000002.dat", ": the spikes do not show"),
        (deep, "sharp/000002.png", ": 16 bits per channel"),
        (of_another_size, "sharp/000002.png", ": 96 x 64 pixels, but"),
        (lost, "sharp/000002.png", ": cannot be read (No such file"),
    ],
)
def test_each_damage_is_found_and_named(dataset, damage, file, fault):
    damage(dataset / SPLIT / NAME / file)
    assert any(f"{file}{fault}" in found for found in ingest(dataset)["faults"])


def test_frames_that_are_missing_everywhere_are_named(dataset):
    for path in (dataset / SPLIT / NAME).glob("*/000002.*"):
        path.unlink()
    (fault,) = ingest(dataset)["faults"]
    assert "frame numbers jump from 000001 to 000003" in fault


def test_all_faults_of_a_data_set_in_one_go_or_left_out_by_name(dataset, tmp_path):
    path = dataset / SEQUENCES[0] / "spike/000002.dat"
    path.write_bytes(path.read_bytes()[:-7])
    deep(dataset / SEQUENCES[2] / "sharp/000002.png")
    copy = dataset / "train" / "copy"
    shutil.copytree(dataset / SEQUENCES[1], copy)
    # It is the sharp frames that count.
    write_png(copy / "blur" / "000001.png", read_rgb(copy / "blur" / "000001.png") // 2)
    paths = checked(dataset, sorted([*SEQUENCES, "train/copy"]), tmp_path)
    with pytest.raises(DataError) as caught:
        accept(paths)
    copied = f"copy: its sharp frames are those of {SEQUENCES[1]}"
    for part in ("(3)", "000002.dat", "16 bits", copied):
        assert part in str(caught.value)
    surveyed = {"train/x": ["no spikes"]}
    with pytest.raises(DataError, match=r"(?s)\(4\):.*- train/x: no spikes.*16 bits"):
        accept(paths, surveyed=surveyed)
    with pytest.raises(
        DataError, match=r"GOPR0002_11_00 and 1 more of 4: 3 frames, .* DATA\.CLIP_LEN = 4"
    ):
        accept(paths, clip_length=4)
    too_small = r"(?s)\(3\):.*0001_11_00 and 2 more of 3: frames of 96 x 128, but crops .* 104 "
    with pytest.raises(DataError, match=too_small):
        accept(paths[1:], crop_sizes={"train": 104, "test": 96})
    fitting = {"clip_length": 3, "crop_sizes": {"train": 96}}
    accepted = accept(paths[1:], **fitting, exclude=True, surveyed=surveyed)
    # Of two equal sequences the first one stays.
    assert accepted["sequences"] == [SEQUENCES[1]]
    assert sorted(accepted["excluded"]) == sorted([SEQUENCES[0], "train/copy", "train/x"])


def test_a_split_without_any_sequence_left_stops_the_gate(dataset, tmp_path):
    deep(dataset / SEQUENCES[2] / "sharp/000002.png")
    paths = checked(dataset, SEQUENCES[1:], tmp_path)
    of_test = {"test/x": ["no sharp frames"]}
    with pytest.raises(DataError, match="all sequences of split test were left out") as caught:
        accept(paths, exclude=True, surveyed={**of_test, SEQUENCES[0]: ["no spikes"]})
    for part in ("(2)", "test/x: no sharp frames", "16 bits", "DATA.VAL_SPLIT"):
        assert part in str(caught.value)
    assert "no spikes" not in str(caught.value)  # of train, which has another sequence
    with pytest.raises(DataError, match="all sequences of split test were left out"):
        accept(paths[:1], exclude=True, surveyed={"test": ["no sequence folders"]})


@pytest.mark.parametrize("file", ["sharp/000001.png", "spike/000002.dat", "spike/000003.npz"])
def test_a_named_pipe_is_not_waited_for(dataset, file):
    path = dataset / SPLIT / NAME / file
    path.with_suffix(".dat" if path.suffix == ".npz" else path.suffix).unlink()
    os.mkfifo(path)
    text = "\n".join(ingest(dataset)["faults"])
    assert f"{path}: cannot be read (found a pipe (FIFO), expected a file)" in text


def test_a_file_in_place_of_the_data_set(tmp_path):
    archive = tmp_path / "gopro.zip"
    archive.write_bytes(b"PK")
    with pytest.raises(DataError, match=r"gopro\.zip is a file; set DATA\.ROOT to the folder"):
        survey(archive, ["train", "test"], "blur")
    with pytest.raises(DataError, match=r"folder \S+none does not exist; set DATA\.ROOT"):
        survey(tmp_path / "none", ["train", "test"], "blur")


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
def reachable(pristine):
    """A copy of the data set in a folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = shutil.copytree(pristine, Path(name) / "dataset")
        root.chmod(0o755)
        yield root
        for path in root.rglob("*"):
            path.chmod(0o755)


def test_a_file_that_can_be_read_again_is_checked_again(reachable):
    """Permissions change without the date of the file."""
    path, manifest = reachable / SPLIT / NAME / "spike/000002.dat", reachable.with_name("a.json")

    def version():
        with ordinary_user():
            files = find_sequence(reachable, SPLIT, NAME, "blur")
            return source_version(reachable, files, "blur", manifest)

    def check():
        before = version()
        with ordinary_user():
            found = ingest(reachable)
        write_json(manifest, {**found, "source_version": before})
        return before, found["faults"]

    for file in (path, reachable / SPLIT / NAME / "blur/000003.png"):
        file.chmod(0)
        closed, faults = check()
        assert len(faults) == 1
        assert f"{file}: cannot be read (Permission denied)" in faults[0]
        assert version() == closed
        file.chmod(0o644)
        opened, faults = check()
        assert faults == []
        assert version() == opened != closed


def test_unreadable_folders_are_named_with_all_others(reachable):
    (reachable / SPLIT / NAME / "sharp").chmod(0)
    shutil.rmtree(reachable / SEQUENCES[1] / "spike")
    with ordinary_user():
        faults = survey(reachable, ["train", "test"], "blur")["excluded"]
    assert f"{NAME}/sharp: cannot be listed (Permission denied)" in faults[SEQUENCES[0]][0]
    assert faults[SEQUENCES[1]][0].startswith("no spikes")
