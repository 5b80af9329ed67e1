"""Sequences of a data set as far as names show: complete, incomplete, unusable and foreign ones."""

from __future__ import annotations

import os
import shutil
import unicodedata
from pathlib import Path

import pytest

from tests.data.conftest import SEQUENCES
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.survey import survey
from vrtspike.io.files import write_json
from vrtspike.system.errors import DataError

SPLIT, NAME = "train", "GOPR0001_11_00"


def test_survey_finds_sequences_and_frames(dataset):
    (dataset / SPLIT / NAME / "blur" / "Thumbs.txt").write_text("stray")
    (dataset / "train" / ".hidden").mkdir()
    report = survey(RawFolder(dataset), ["train", "test"])
    assert (report["layout"], report["spikes"]) == ("spk_gopro", True)
    names = (name.split("/") for name in SEQUENCES)
    expected = [{"split": split, "name": name, "frames": 3} for split, name in names]
    assert report["sequences"] == expected


def test_the_path_of_a_data_set_may_hold_braces(dataset):
    root = dataset.rename(dataset.with_name("{split}"))
    assert len(survey(RawFolder(root, spike_root=str(root)), ["train", "test"])["sequences"]) == 3


def test_a_data_set_has_spikes_everywhere_or_nowhere(dataset):
    for name in SEQUENCES[:2]:
        shutil.rmtree(dataset / name / "spike")
    report = survey(RawFolder(dataset), ["train", "test"])
    assert (report["spikes"], len(report["sequences"])) == (True, 1)
    assert sorted(report["excluded"]) == sorted(SEQUENCES[:2])
    assert all(faults[0].startswith("no spikes") for faults in report["excluded"].values())
    shutil.rmtree(dataset / SEQUENCES[2] / "spike")
    report = survey(RawFolder(dataset), ["train", "test"])
    assert (report["spikes"], report["excluded"], len(report["sequences"])) == (False, {}, 3)


def test_all_incomplete_sequences_are_named_at_once(dataset):
    shutil.rmtree(dataset / "train" / "GOPR0001_11_00" / "blur")
    shutil.rmtree(dataset / "train" / "GOPR0002_11_00" / "sharp")
    shutil.copy(
        dataset / "test/GOPR0003_11_00/spike/000001.dat", dataset / "test/GOPR0003_11_00/spike.dat"
    )
    with pytest.raises(DataError) as caught:
        survey(RawFolder(dataset), ["train", "test", "valid"])
    faults = (
        "0001_11_00: no blurry",
        "0002_11_00: no sharp",
        "0003_11_00/spike/000001.dat and test",
    )
    assert all(fault in str(caught.value) for fault in (*faults, "valid: no seq"))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("gopro.zip", r"gopro\.zip is a file .*; set DATA\.ROOT to the folder"),
        ("none", r"none does not exist; set DATA\.ROOT to the folder that holds train and test$"),
        ("empty", r"no sequence folders; expected .*train/<sequence>/sharp(.|\n)*layout spk_gopro"),
    ],
)
def test_a_place_without_a_data_set(tmp_path, place, message):
    (tmp_path / "gopro.zip").write_bytes(b"PK")
    (tmp_path / "empty/videos").mkdir(parents=True)
    with pytest.raises(DataError, match=message):
        survey(RawFolder(tmp_path / place), ["train", "test"])


def test_spikes_that_a_root_of_their_own_lacks_are_asked_for_there(dataset, tmp_path):
    root = tmp_path / "spikes"
    root.mkdir()
    message = rf"no spikes \({root}/{SPLIT}/{NAME}/spike/\*\.dat or .*but DATA\.SPIKE_ROOT is set"
    with pytest.raises(DataError, match=message):
        survey(RawFolder(dataset, spike_root=str(root)), ["train", "test"])


def test_sequences_whose_names_look_alike_are_one_fault(dataset):
    composed, decomposed = (dataset / SPLIT / name for name in ("caf\u00e9", "cafe\u0301"))
    (dataset / SPLIT / NAME).rename(composed)
    decomposed.mkdir()
    (composed / "sharp").rename(decomposed / "sharp")
    report = survey(RawFolder(dataset), ["train", "test"])
    ((name, faults),) = report["excluded"].items()
    assert unicodedata.normalize("NFC", name) == f"{SPLIT}/caf\u00e9"
    assert len(faults) == 1
    assert "two folders of it, whose names look alike" in faults[0]
    assert len(report["sequences"]) == 2


def test_links_that_lead_nowhere_are_faults(dataset):
    (dataset / "train" / "lost").symlink_to(dataset / "elsewhere")
    (dataset / "train" / "round").symlink_to("round")
    (dataset / "train" / "linked").symlink_to(dataset / "test/GOPR0003_11_00")
    (dataset / "train" / "notes.txt").symlink_to(dataset / SPLIT / NAME / "sharp/000001.png")
    report = survey(RawFolder(dataset), ["train"])
    assert [s["name"] for s in report["sequences"]] == [NAME, "GOPR0002_11_00", "linked"]
    assert sorted(report["excluded"]) == ["train/lost", "train/round"]
    assert report["excluded"]["train/lost"][0] == "no blurry frames (train/lost/blur/*.png)"


SEQUENCE = SEQUENCES[0]
NO_TEXT = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("old", "new", "where", "fault"),
    [
        (SEQUENCE, "train/a{b}", "train/a{b}", "the workflow takes { and } for placeholders; ren"),
        (SEQUENCE, f"train/{231 * 'b'}", f"train/{231 * 'b'}", "a name of 231 bytes, expected at"),
        (SEQUENCE, f"train/{NO_TEXT}", r"train/caf\xe9", "its name is not UTF-8; rename"),
        (
            *(f"{SEQUENCE}/blur/000002.png", f"{SEQUENCE}/blur/{NO_TEXT}.png", SEQUENCE),
            r"blur/caf\xe9.png: the name is not UTF-8; rename",
        ),
        (
            *(f"{SEQUENCE}/blur", f"{SEQUENCE}/Blur", SEQUENCE),
            f"found the folder {SEQUENCE}/Blur, expected {SEQUENCE}/blur; rename it",
        ),
        ("test", "TEST", "test", "found the folder TEST: rename it"),
    ],
)
def test_names_that_cannot_be_used_are_faults_that_can_be_written(
    dataset, tmp_path, old, new, where, fault
):
    (dataset / old).rename(dataset / new)
    report = survey(RawFolder(dataset), ["train", "test"])
    assert list(report["excluded"]) == [where]
    assert fault in report["excluded"][where][0]
    write_json(tmp_path / "survey.json", report)


def test_folders_of_archives_and_file_systems_are_passed_over_and_told(dataset):
    expected = survey(RawFolder(dataset), ["train", "test"])
    for name in ("__MACOSX/GOPR0001_11_00/blur", "@eaDir", "lost+found"):
        (dataset / SPLIT / name).mkdir(parents=True)
    report = survey(RawFolder(dataset), ["train", "test"])
    names = [Path(path).name for path in report.pop("passed_over")]
    assert names == ["@eaDir", "__MACOSX", "lost+found"]
    assert report == expected
    # Of sequences two folders deep, in the first as well.
    for name in ("002/occ1", "002/@eaDir", "002/.old", "lost+found/occ1"):
        (dataset / "train_blurry_33" / name).mkdir(parents=True)
    names, foreign = LAYOUTS["spk_x4k_33"].sequence_names(dataset, "train", None)
    assert names == ["002__occ1"]
    assert {Path(path).name for path in foreign} == {"@eaDir", "lost+found"}
