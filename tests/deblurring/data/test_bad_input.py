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
from tests.deblurring.data.prepared import check
from vrtspike.deblurring.data.raw.layouts.registry import find_sequence
from vrtspike.deblurring.data.raw.spikes import read_spikes, write_spikes
from vrtspike.deblurring.data.raw.survey import survey
from vrtspike.deblurring.data.raw.versions import source_version
from vrtspike.errors import DataError
from vrtspike.io.files import write_json
from vrtspike.io.images import read_rgb, write_png

SPLIT, NAME = "train", "GOPR0001_11_00"


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
    assert any(f"{file}{fault}" in found for found in check(dataset)["faults"])


def test_frames_that_are_missing_everywhere_are_named(dataset):
    for path in (dataset / SPLIT / NAME).glob("*/000002.*"):
        path.unlink()
    (fault,) = check(dataset)["faults"]
    assert "frame numbers jump from 000001 to 000003" in fault


@pytest.mark.parametrize("file", ["sharp/000001.png", "spike/000002.dat", "spike/000003.npz"])
def test_a_named_pipe_is_not_waited_for(dataset, file):
    path = dataset / SPLIT / NAME / file
    path.with_suffix(".dat" if path.suffix == ".npz" else path.suffix).unlink()
    os.mkfifo(path)
    text = "\n".join(check(dataset)["faults"])
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

    def check_again():
        before = version()
        with ordinary_user():
            found = check(reachable)
        write_json(manifest, {**found, "source_version": before})
        return before, found["faults"]

    for file in (path, reachable / SPLIT / NAME / "blur/000003.png"):
        file.chmod(0)
        closed, faults = check_again()
        assert len(faults) == 1
        assert f"{file}: cannot be read (Permission denied)" in faults[0]
        assert version() == closed
        file.chmod(0o644)
        opened, faults = check_again()
        assert faults == []
        assert version() == opened != closed


def test_unreadable_folders_are_named_with_all_others(reachable):
    (reachable / SPLIT / NAME / "sharp").chmod(0)
    shutil.rmtree(reachable / SEQUENCES[1] / "spike")
    with ordinary_user():
        faults = survey(reachable, ["train", "test"], "blur")["excluded"]
    assert f"{NAME}/sharp: cannot be listed (Permission denied)" in faults[SEQUENCES[0]][0]
    assert faults[SEQUENCES[1]][0].startswith("no spikes")
