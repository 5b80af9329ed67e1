"""Folders that are proposed in place of those that hold no data set."""

from __future__ import annotations

import pytest

from tests.data.raw.published import PUBLISHED
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.nearby import spike_roots
from vrtspike.data.raw.survey import survey
from vrtspike.system.errors import DataError

SPLITS = ["train", "test"]


@pytest.mark.parametrize(
    ("name", "key", "split"),
    [("x4k 33", "TEST_SPLIT", "test"), ("spk_gopro", "TRAIN_SPLIT", "train")],
)
def test_a_split_of_another_name_is_proposed_for_its_key(tmp_path, name, key, split):
    PUBLISHED[name].write(tmp_path)
    expected = {"x4k 33": "test_fullRGB/", "spk_gopro": "train/<sequence>/sharp/"}[name]
    for path in list(tmp_path.glob(f"{split}*")):
        path.rename(path.with_name(path.name.replace(split, "val", 1)))
    report = survey(RawFolder(tmp_path), SPLITS)
    (fault,) = report["excluded"][split]
    assert f"expected {tmp_path}/{expected}" in fault
    assert fault.endswith(f"; found the split val: set DATA.{key} to the one that is meant")
    splits = ["train", "val"] if split == "test" else ["val", "test"]
    assert survey(RawFolder(tmp_path), splits)["excluded"] == {}


@pytest.mark.parametrize("name", ["spk_gopro", "kair", "nafnet"])
def test_a_root_too_high_or_too_low_is_told_the_right_one(tmp_path, name):
    right = tmp_path / "data/GOPRO"
    PUBLISHED[name].write(right)
    low = next(path for path in sorted(right.iterdir()) if path.name.startswith("train"))
    for wrong in (tmp_path / "data", low):
        with pytest.raises(DataError, match=rf"Did you mean DATA\.ROOT {right}, which holds"):
            survey(RawFolder(wrong), SPLITS)
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError) as caught:
        survey(RawFolder(tmp_path / "other"), SPLITS)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("place", ["GOPRO_Large_spike_seq", "GOPRO/spikes"])
def test_spikes_beside_the_root_or_in_it_are_found(tmp_path, place):
    PUBLISHED["spikes elsewhere"].write(tmp_path / "GOPRO")
    (tmp_path / "GOPRO/spikes").rename(tmp_path / place)
    assert spike_roots(tmp_path / "GOPRO", "train", "a") == [tmp_path / place]
    (tmp_path / "other").mkdir()
    assert spike_roots(tmp_path / "GOPRO", "train", "b") == []
    (tmp_path / place / "train/a").rename(tmp_path / place / "train/a[1]")
    assert spike_roots(tmp_path / "GOPRO", "train", "a[1]") == [tmp_path / place]
