"""Matroska files that are cut."""

from __future__ import annotations

import pytest

from tests.data.video.samples import write_sample
from vrtspike.data.video import inspect_video
from vrtspike.system.errors import DataError


@pytest.mark.parametrize("has_length", [True, False])
def test_a_file_that_ends_before_its_duration_is_refused(tmp_path, has_length):
    path = tmp_path / "a.mkv"
    write_sample(path)
    contents = bytearray(path.read_bytes())
    if not has_length:
        size = contents.index(b"\x18\x53\x80\x67") + 4
        contents[size : size + 8] = b"\x01" + 7 * b"\xff"
    path.write_bytes(contents)
    assert inspect_video(path).frames == 8
    path.write_bytes(contents[: len(contents) // 2])
    with pytest.raises(DataError, match=r"after 3 frames; .* 0\.32 s, about 8 frames"):
        inspect_video(path)
