"""Check of raw data in one call, beside the workflow's stages."""

from __future__ import annotations

import shutil

import pytest

from vrtspike.api.checking import check_data
from vrtspike.system.errors import DataError


def test_faults_of_names_contents_and_copies_are_listed(small_run, tmp_path):
    root = shutil.copytree(small_run.raw, tmp_path / "raw")
    check = check_data(str(root))
    assert list(check.sequences.index) == ["test/b", "test/c", "train/a"]
    assert set(check.sequences["frames"]) == {5}
    assert check.faults.empty
    assert repr(check) == f"{root}: layout spk_gopro, 3 sequences, 3 without faults"

    (root / "test/b/blur/000003.png").write_bytes(b"no picture")
    (root / "test/c/sharp/000005.png").unlink()
    shutil.copytree(root / "train/a", root / "test/copy")
    check = check_data(root)
    faults = check.faults.groupby("sequence")["fault"].agg(" ".join)
    assert set(faults.index) == {"test/b", "test/c", "test/copy"}
    assert "000003.png" in faults["test/b"]
    assert "000005" in faults["test/c"]
    assert "5 of its 5 sharp frames are frames of train/a" in faults["test/copy"]
    assert list(check.sequences["faults"] > 0) == [True, True, True, False]
    title, *lines = repr(check).splitlines()
    assert title == f"{root}: layout spk_gopro, 4 sequences, 1 without faults; faults (3):"
    assert len(lines) == 4


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        check_data(tmp_path / "nowhere")
