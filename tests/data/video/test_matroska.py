"""The length that a Matroska file announces."""

from __future__ import annotations

import pytest

from tests.data.video.samples import write_sample
from vrtspike.data.video import inspect_video
from vrtspike.data.video.decoding import announced_bytes
from vrtspike.system.errors import DataError


def test_a_matroska_file_that_lacks_its_last_byte(tmp_path):
    path = tmp_path / "a.mkv"
    write_sample(path)
    contents = path.read_bytes()
    assert announced_bytes(path) == len(contents)
    path.write_bytes(contents[:-1])
    message = rf"after 8 frames \({len(contents) - 1} bytes of {len(contents)}\)"
    with pytest.raises(DataError, match=message):
        inspect_video(path)


def test_a_matroska_file_that_states_its_duration_alone(tmp_path):
    path = tmp_path / "a.mkv"
    write_sample(path)
    contents = bytearray(path.read_bytes())
    size = contents.index(b"\x18\x53\x80\x67") + 4
    contents[size : size + 8] = b"\x01" + 7 * b"\xff"  # unknown
    path.write_bytes(contents)
    assert announced_bytes(path) is None
    assert inspect_video(path).frames == 8
    path.write_bytes(contents[: len(contents) // 2])
    with pytest.raises(DataError, match=r"after 3 frames; .* 0\.32 s, about 8 frames"):
        inspect_video(path)


def test_other_formats_announce_no_bytes(tmp_path):
    write_sample(tmp_path / "a.mp4")
    (tmp_path / "b.mkv").write_bytes(b"\x1a\x45\xdf\xa3\x84ab")
    for name in ("a.mp4", "b.mkv"):
        assert announced_bytes(tmp_path / name) is None
