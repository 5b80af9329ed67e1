"""A copy of a video keeps its time stamps, its frames and the shape of its pixels."""

from __future__ import annotations

from fractions import Fraction

import av
import pytest

from tests.data.video.samples import VARIABLE, copy, seconds, turned, write_sample
from vrtspike.data.video import inspect_video, video_writer


@pytest.mark.parametrize(
    ("name", "last"), [("a.mp4", 40), ("a.mkv", 40), ("a.mov", 40), ("a.ts", 100)]
)
def test_a_variable_frame_rate(tmp_path, name, last):
    """The last frame of a file that states no durations is shown as long as the one before it."""
    write_sample(tmp_path / name, VARIABLE)
    info, copied = copy(tmp_path / name, tmp_path / "copy.mp4")
    assert seconds(copied) == seconds(info)
    assert [float(time) for time in seconds(copied)[:-1]] == [stamp / 1000 for stamp in VARIABLE]
    assert copied.has_timestamps
    assert seconds(info)[-1] == Fraction(1200 + last, 1000)
    with av.open(str(tmp_path / "copy.mp4")) as container:
        assert container.duration == pytest.approx(1_000_000 * seconds(info)[-1], abs=1)
        assert container.duration >= 1_200_000


def test_frames_that_avi_stores_in_the_order_of_decoding(tmp_path):
    write_sample(tmp_path / "a.avi", range(0, 800, 40))
    info, copied = copy(tmp_path / "a.avi", tmp_path / "copy.mp4")
    assert seconds(copied) == seconds(info)
    steps = {later - stamp for stamp, later in zip(seconds(info), seconds(info)[1:], strict=False)}
    assert steps == {Fraction(1, 25)}


def test_a_stream_without_time_stamps_gets_equal_steps(tmp_path):
    write_sample(tmp_path / "a.h264")
    info = inspect_video(tmp_path / "a.h264")
    assert not info.has_timestamps
    assert seconds(info) == [number / info.rate for number in range(9)]


def test_the_shape_of_pixels(tmp_path):
    write_sample(tmp_path / "a.mkv", shape=Fraction(4, 3))
    info, copied = copy(tmp_path / "a.mkv", tmp_path / "copy.mp4")
    assert info.sample_aspect_ratio == copied.sample_aspect_ratio == Fraction(4, 3)
    with av.open(str(tmp_path / "copy.mp4")) as container:
        assert container.streams.video[0].sample_aspect_ratio == Fraction(4, 3)


def test_the_shape_of_pixels_of_a_turned_video(tmp_path):
    path = tmp_path / "a.mp4"
    write_sample(path, shape=Fraction(4, 3))
    path.write_bytes(turned(path.read_bytes()))
    info, copied = copy(path, tmp_path / "copy.mp4")
    assert info.size == copied.size == (96, 64)
    assert info.sample_aspect_ratio == copied.sample_aspect_ratio == Fraction(3, 4)


def test_a_copy_has_as_many_frames(tmp_path):
    frames = write_sample(tmp_path / "a.mkv")
    info = inspect_video(tmp_path / "a.mkv")
    for number in (7, 9):
        with (  # noqa: PT012 - the error of too few frames comes at the end
            pytest.raises(ValueError, match=r"copy\.mp4: (7 frames, expected 8|more frames than)"),
            video_writer(tmp_path / "copy.mp4", like=info) as append,
        ):
            for frame in [*frames, frames[0]][:number]:
                append([frame])
    assert [path.name for path in tmp_path.iterdir()] == ["a.mkv"]
