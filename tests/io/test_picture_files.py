"""The pictures among the files of a folder."""

from __future__ import annotations

from vrtspike.io.picture_files import FRAME_SUFFIXES, READABLE_SUFFIXES, list_pictures


def test_visible_files_of_the_suffixes_are_listed(tmp_path):
    for name in ("1.png", "2.JPG", "3.webp", "._1.png", ".png", "png", "4.dat"):
        (tmp_path / name).touch()
    assert {path.name for path in list_pictures(tmp_path, FRAME_SUFFIXES)} == {"1.png", "2.JPG"}
    names = {path.name for path in list_pictures(tmp_path, READABLE_SUFFIXES)}
    assert names == {"1.png", "2.JPG", "3.webp"}
    assert list_pictures(tmp_path / "nowhere", READABLE_SUFFIXES) == []
