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
from vrtspike.io.images import encode_png, read_rgb, write_png

SPLIT, NAME = "train", "GOPR0001_11_00"


def ingest(root, name=SEQUENCES[0], **options):
    return check(root, name, **options)


def spike_file(folder, number=2):
    return folder / "spike" / f"{number:06d}.dat"


def cut_dat(folder):
    path = spike_file(folder)
    path.write_bytes(path.read_bytes()[:-7])


def doubled_dat(folder):
    path = spike_file(folder)
    path.write_bytes(path.read_bytes() + spike_file(folder, 3).read_bytes())


def shuffled_steps(folder):
    spikes = read_spikes(spike_file(folder), 48, 64)
    write_spikes(spike_file(folder), np.random.default_rng(0).permutation(spikes))


def picture(change):
    def damage(folder):
        path = folder / "sharp" / "000002.png"
        path.write_bytes(change(path))

    return damage


def png(array):
    return cv2.imencode(".png", array)[1].tobytes()


deep_png = picture(lambda path: png(read_rgb(path).astype(np.uint16) * 257))
other_size = picture(lambda path: encode_png(np.ascontiguousarray(read_rgb(path)[:, :64])))


def missing_everywhere(folder):
    for path in folder.glob("*/000002.*"):
        path.unlink()


def lost_sharp(folder):
    path = folder / "sharp" / "000002.png"
    path.unlink()
    path.symlink_to("nowhere.png")


def spikes_of_another_sequence(folder):
    shutil.copy(spike_file(folder.parent / "GOPR0002_11_00"), spike_file(folder))


DAMAGE = {
    doubled_dat: r"000002\.dat holds 176 spike frames, others 88, and its sharp frame",
    shuffled_steps: r"spike/000002\.dat .*: the steps of the file are shuffled",
    deep_png: r"sharp/000002\.png: 16 bits per channel",
    other_size: r"sharp/000002\.png: 96 x 64 pixels, but .* has 96 x 128",
    lost_sharp: r"sharp/000002\.png: cannot be read \(No such file",
    missing_everywhere: r"frame numbers jump from 000001 to 000003",
    spikes_of_another_sequence: r"spike/000002\.dat: the spikes do not show",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: getattr(damage, "__name__", "png"))
def test_each_damage_is_found_and_named(dataset, damage):
    damage(dataset / SPLIT / NAME)
    faults = ingest(dataset)["faults"]
    with pytest.raises(DataError, match=DAMAGE[damage]):
        raise DataError("\n".join(faults))


def test_all_faults_of_a_data_set_in_one_go_or_left_out_by_name(dataset, tmp_path):
    cut_dat(dataset / SEQUENCES[0])
    deep_png(dataset / SEQUENCES[2])
    copy = dataset / "train" / "copy"
    shutil.copytree(dataset / SEQUENCES[1], copy)
    # It is the sharp frames that count.
    write_png(copy / "blur" / "000001.png", read_rgb(copy / "blur" / "000001.png") // 2)
    paths = checked(dataset, sorted([*SEQUENCES, "train/copy"]), tmp_path)
    with pytest.raises(DataError) as caught:
        accept(paths)
    message = str(caught.value)
    for part in (
        "(3)",
        "000002.dat",
        "16 bits",
        f"copy: its sharp frames are those of {SEQUENCES[1]}",
    ):
        assert part in message
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
    deep_png(dataset / SEQUENCES[2])
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


def test_unreadable_files_are_faults(reachable):
    spike_file(reachable / SPLIT / NAME).chmod(0)
    (reachable / SPLIT / NAME / "blur" / "000003.png").chmod(0)
    with ordinary_user():
        faults = ingest(reachable)["faults"]
    assert len(faults) == 2
    assert all("cannot be read (Permission denied)" in fault for fault in faults)


def test_a_file_that_can_be_read_again_is_checked_again(reachable):
    """Permissions change without the date of the file."""
    path, manifest = spike_file(reachable / SPLIT / NAME), reachable.with_name("ingest.json")

    def version():
        with ordinary_user():
            files = find_sequence(reachable, SPLIT, NAME, "blur")
            return source_version(reachable, files, "blur", manifest)

    def check():
        before = version()
        with ordinary_user():
            found = ingest(reachable)
        write_json(manifest, {**found, "source_version": before})
        return before, len(found["faults"])

    path.chmod(0)
    closed, faults = check()
    assert faults == 1
    assert version() == closed
    path.chmod(0o644)
    opened, faults = check()
    assert faults == 0
    assert version() == opened != closed


def test_unreadable_folders_are_named_with_all_others(reachable):
    (reachable / SPLIT / NAME / "sharp").chmod(0)
    shutil.rmtree(reachable / SEQUENCES[1] / "spike")
    with ordinary_user():
        faults = survey(reachable, ["train", "test"], "blur")["excluded"]
    assert f"{NAME}/sharp: cannot be listed (Permission denied)" in faults[SEQUENCES[0]][0]
    assert faults[SEQUENCES[1]][0].startswith("no spikes")
