"""Versions of folders of pictures."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from vrtspike.deblurring.data.raw.versions import folder_version, input_version
from vrtspike.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for number in range(3):
        picture = random.integers(0, 256, (64, 64, 3), np.uint8)
        cv2.imwrite(str(tmp_path / f"{number:06d}.png"), picture)
    return tmp_path


def test_a_touched_file_is_the_same(folder):
    before = folder_version(folder)
    os.utime(folder / "000001.png", (0, 0))
    assert folder_version(folder) == before


def test_one_changed_pixel_is_noticed_even_at_equal_size(folder):
    """Stored without compression, so that the file keeps its size and most of its bytes."""
    path, options = folder / "000001.png", [cv2.IMWRITE_PNG_COMPRESSION, 0]
    picture = cv2.imread(str(path))
    cv2.imwrite(str(path), picture, options)
    before, size = folder_version(folder), path.stat().st_size
    picture[0, 0, 0] ^= 1
    cv2.imwrite(str(path), picture, options)
    assert path.stat().st_size == size
    assert folder_version(folder) != before


@pytest.mark.parametrize("change", ["added", "removed", "renamed"])
def test_names_count(folder, change):
    before = folder_version(folder)
    path = folder / "000002.png"
    if change == "added":
        (folder / "000003.png").write_bytes(path.read_bytes())
    elif change == "removed":
        path.unlink()
    else:
        path.rename(folder / "000009.png")
    assert folder_version(folder) != before


def test_a_picture_longer_than_what_is_read_is_known_by_its_end(tmp_path):
    """A PNG ends with the checksums of its whole picture; its head is that of every other one."""
    path = tmp_path / "000001.png"
    path.write_bytes(bytes(1000))
    before = folder_version(tmp_path)
    for place in (-1, 0):
        changed = bytearray(1000)
        changed[place] = 1
        path.write_bytes(changed)
        assert folder_version(tmp_path) != before, place
    path.write_bytes(bytes(1000))
    assert folder_version(tmp_path) == before


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: found no regular file"):
        input_version([tmp_path / "a.png"])
