"""Recognition of a folder, and the parts that it lacks."""

from __future__ import annotations

import shutil

import pytest

from tests.data.raw.names import PATTERNS, write_names
from vrtspike.data.raw.completeness import WHOLE, Expected, missing_parts, read_contents
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.system.errors import DataError

SPLITS = {"train": 2, "val": 1}


def contents_of(root, **options):
    (contents,) = read_contents(root, **options)
    return contents


def test_every_layout_that_is_recognised_by_its_folders_is_tested():
    assert {name for name, layout in LAYOUTS.items() if layout.required_folders} == set(PATTERNS)


@pytest.mark.parametrize("layout", PATTERNS)
def test_a_complete_folder_of_each_layout(layout, tmp_path):
    write_names(tmp_path, layout, SPLITS)
    contents = contents_of(tmp_path)
    assert contents.layout.name == layout
    result = {split: len(files) for split, files in contents.splits.items()}
    assert result == ({WHOLE: 2} if layout == "rsb" else SPLITS)
    assert {len(files.blur) for split in contents.splits.values() for files in split} == {2}
    with_spikes = any(name.endswith(".dat") for name in PATTERNS[layout])
    assert contents.has_spikes == with_spikes
    assert missing_parts(contents, Expected(has_spikes=with_spikes)) == []


@pytest.mark.parametrize("layout", [name for name in PATTERNS if name != "rsb"])
def test_a_missing_sharp_folder_of_each_layout(layout, tmp_path):
    write_names(tmp_path, layout, {"train": 2, "test": 1})
    contents = contents_of(tmp_path)
    sharp = contents.layout.sequence_paths("train", contents.splits["train"][0].name, "blur").sharp
    for path in tmp_path.glob(f"{sharp}*"):
        path.unlink()
    (fault,) = missing_parts(contents_of(tmp_path), Expected())
    assert fault.startswith("train: found 1 of 2 sequences without sharp frames (q000")
    assert f"expected {tmp_path}/" in fault
    assert "unpack or download them" in fault


def test_spikes_that_some_sequences_or_all_lack(tmp_path):
    write_names(tmp_path, "spk_gopro", {"train": 2, "test": 1}, spikes=False)
    contents = contents_of(tmp_path)
    assert missing_parts(contents, Expected()) == []
    faults = missing_parts(contents, Expected(has_spikes=True))
    assert [fault.split(" without")[0] for fault in faults] == [
        "test: found 1 of 1 sequences",
        "train: found 2 of 2 sequences",
    ]
    write_names(tmp_path, "spk_gopro", {"train": 1})
    test, train = missing_parts(contents_of(tmp_path), Expected())
    assert train.startswith("train: found 1 of 2 sequences without spikes (q001), expected ")
    assert f"{tmp_path}/train/<sequence>/spike/*.dat" in train
    assert "--spike-root" in test


def test_spikes_under_a_root_of_their_own(tmp_path):
    frames, spikes = tmp_path / "frames", tmp_path / "spikes"
    write_names(frames, "spk_gopro", {"train": 2}, spikes=False)
    write_names(spikes, "spk_gopro", {"train": 2})
    expected = Expected(has_spikes=True)
    assert missing_parts(contents_of(frames, spike_root=str(spikes)), expected) == []
    shutil.rmtree(spikes / "train/q001/spike")
    (fault,) = missing_parts(contents_of(frames, spike_root=str(spikes)), expected)
    assert f"(q001), expected {spikes}/train/<sequence>/spike/*.dat" in fault


def test_counts_against_the_published_ones(tmp_path):
    write_names(tmp_path, "reds", {"train": 2, "val": 1, "extra": 1}, frames=3)
    expected = Expected({"train": 3, "val": 1, "test": 1}, {"train": 9, "val": 4, "test": 3})
    train, val, test, extra = missing_parts(contents_of(tmp_path), expected)
    assert train.startswith("train: found 2 sequences, expected 3: ")
    assert f"{tmp_path}/train/train_blur/<sequence>/*.png" in train
    assert val.startswith("val: found 3 blurry frames, expected 4: ")
    assert test.startswith("test: found 0 sequences, expected 1: ")
    assert extra == "extra: found this split, expected train and val and test; rename or remove it"
    assert missing_parts(contents_of(tmp_path), Expected()) == []


def test_frames_without_a_partner_are_listed_up_to_a_limit(tmp_path):
    write_names(tmp_path, "bsd", {"train": 5}, frames=3)
    for path in tmp_path.glob("train/*/Blur/RGB/000002.png"):
        path.unlink()
    faults = missing_parts(contents_of(tmp_path), Expected())
    assert faults[0].startswith("train/q000: frame 000002 is in sharp but has no partner in blur")
    assert faults[3:] == ["train: 2 more sequences with faults of frames"]


def test_both_lengths_of_spk_x4k_are_found(tmp_path):
    for layout in ("spk_x4k_33", "spk_x4k_65"):
        write_names(tmp_path, layout, {"train": 1})
    result = [contents.layout.name for contents in read_contents(tmp_path)]
    assert result == ["spk_x4k_33", "spk_x4k_65"]


def test_a_folder_that_is_no_data_set(tmp_path):
    assert read_contents(tmp_path) == []
    with pytest.raises(DataError, match="nosuch: found no folder, expected that of a data set"):
        read_contents(tmp_path / "nosuch")
    with pytest.raises(DataError, match="absent: found no folder"):
        read_contents(tmp_path, str(tmp_path / "absent"))
