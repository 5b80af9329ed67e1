"""Whole videos are read; damaged, interlaced or uneven ones are refused."""

from __future__ import annotations

import pytest

from tests.data.video.samples import VARIABLE, write_sample
from vrtspike.data.video import inspect_video, read_video
from vrtspike.system.errors import DataError


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4", "a.ts"])
def test_interlaced_video_is_refused(tmp_path, name):
    write_sample(tmp_path / name, interlaced=True)
    with pytest.raises(DataError, match=rf"{name}: frame 1 is interlaced.*Deinterlace it"):
        inspect_video(tmp_path / name)
    with pytest.raises(DataError, match="is interlaced"):
        next(read_video(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "codec", "sound"),
    [
        ("a.mkv", "libx264", ()),
        ("a.mkv", "libx264", ("aac",)),
        ("a.webm", "libvpx-vp9", ()),
        ("a.avi", "mpeg4", ()),
    ],
)
@pytest.mark.parametrize("part", [0.5, 0.8])
def test_a_video_that_was_cut(tmp_path, name, codec, sound, part):
    path = tmp_path / name
    write_sample(path, codec=codec, sound=sound)
    contents = path.read_bytes()
    path.write_bytes(contents[: int(len(contents) * part)])
    with pytest.raises(DataError, match=r"is damaged after [1-8] frames.*about (8|9|26) frames\. "):
        inspect_video(path)
    with pytest.raises(DataError, match="is damaged after"):
        list(read_video(path))


def test_a_cut_that_ffmpeg_marks(tmp_path):
    path = tmp_path / "a.mp4"
    write_sample(path, sound=["aac"], index_first=True)
    contents = path.read_bytes()
    assert contents.index(b"moov") < contents.index(b"mdat")
    path.write_bytes(contents[:-1])
    with pytest.raises(DataError, match="after 8 frames; its header announces"):
        inspect_video(path)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
@pytest.mark.parametrize(("codec", "size"), [("mpeg4", (64, 96)), ("libx264", (480, 640))])
def test_a_frame_with_damage_inside(tmp_path, codec, size, part):
    path = tmp_path / "a.mkv"
    write_sample(path, codec=codec, size=size)
    contents = bytearray(path.read_bytes())
    place = int(len(contents) * part)
    contents[place : place + 40] = bytes(40)
    path.write_bytes(contents)
    with pytest.raises(DataError, match=r"the video breaks off or is damaged after [1-7] frames"):
        inspect_video(path)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        *(("a.mkv", "libx264"), ("a.mp4", "libx265"), ("a.avi", "mpeg4"), ("a.flv", "flv1")),
        *(("a.mov", "mjpeg"), ("a.ts", "libx264"), ("a.webm", "libvpx-vp9"), ("a.h264", "libx264")),
    ],
)
def test_whole_videos_are_taken(tmp_path, name, codec):
    sound = {"a.h264": (), "a.webm": ("libopus",), "a.flv": ("libmp3lame",)}.get(name, ("mp2",))
    stamps = VARIABLE if name in ("a.mkv", "a.mp4", "a.webm") else tuple(range(0, 320, 40))
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    write_sample(tmp_path / name, stamps, codec=codec, pixels=pixels, sound=sound)
    assert inspect_video(tmp_path / name).frames == 8


def test_a_video_whose_size_changes(tmp_path):
    sizes = [(64, 96), (80, 96)]
    for number, size in enumerate(sizes):
        write_sample(tmp_path / f"{number}.h264", size=size)
    parts = [(tmp_path / f"{number}.h264").read_bytes() for number in range(2)]
    (tmp_path / "a.h264").write_bytes(b"".join(parts))
    with pytest.raises(DataError, match=r"a\.h264: found 16 frames of 2 sizes, expected one"):
        inspect_video(tmp_path / "a.h264")
