from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest

from vrtspike.deblurring.evaluation.pictures import (
    ForwardReader,
    array_pictures,
    open_pictures,
)
from vrtspike.deblurring.video import video_file
from vrtspike.errors import DataError
from vrtspike.io.images import write_png


def gray(level: int, height: int = 16, width: int = 24) -> np.ndarray:
    return np.full((height, width, 3), level, np.uint8)


def test_a_folder_holds_pictures_of_several_kinds_in_the_order_of_their_numbers(tmp_path):
    write_png(tmp_path / "10.PNG", gray(30))
    for name, level in (("9.jpg", 20), ("8.bmp", 10), ("11.tif", 40)):
        cv2.imwrite(str(tmp_path / name), gray(level))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".12.png").touch()
    folder = open_pictures(tmp_path)
    assert (list(folder.names), folder.size) == (["8", "9", "10", "11"], (16, 24))
    assert folder.read(slice(0, 4))[:, 8, 8, 1].tolist() == [10, 20, 30, 40]
    assert folder.read(slice(2, 3)).shape == (1, 16, 24, 3)
    assert folder.describe(1) == str(tmp_path / "9.jpg")


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """50 frames that get lighter, more than stay decoded."""
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    with video_file(path) as append:
        for number in range(50):
            append([gray(5 * number)])
    return path


def test_a_video_is_read_in_any_order(video):
    frames = open_pictures(video)
    assert (len(frames.names), frames.names[0], frames.names[49]) == (50, "000001", "000050")
    assert frames.size == (16, 24)
    assert frames.describe(1) == f"{video}, frame 2"
    for part in (slice(0, 3), slice(40, 43), slice(41, 44), slice(20, 22), slice(0, 1)):
        levels = frames.read(part)[:, 8, 8, 0].astype(int)
        expected = 5 * np.arange(part.start, part.stop)
        assert np.abs(levels - expected).max() <= 3


def test_a_stream_is_read_once_by_neighbouring_windows():
    begun, taken = [], []

    def begin():
        begun.append(1)
        for number in range(100):
            taken.append(number)
            yield number

    reader = ForwardReader(begin, keep=8)
    for start in range(0, 95, 4):
        positions = [*range(start, start + 5), start]
        assert [reader.read(position) for position in positions] == positions
    assert (len(begun), taken) == (1, list(range(97)))
    assert reader.read(92) == 92
    assert len(begun) == 1
    assert reader.read(2) == 2
    assert len(begun) == 2


def test_a_stream_is_read_by_several_threads():
    together = threading.Barrier(3)

    def begin():
        for number in range(60):
            os.sched_yield()  # others come in meanwhile
            yield number

    reader = ForwardReader(begin, keep=16)

    def read(step: int) -> list[int]:
        together.wait(10)
        return [number for number in range(0, 50, step) if reader.read(number) != number]

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(read, (3, 4, 7) * 20)) == [[]] * 60


def test_frames_in_memory():
    frames = np.stack([gray(level) for level in (1, 2, 3)])
    pictures = array_pictures(frames)
    assert (list(pictures.names), pictures.size) == (["000001", "000002", "000003"], (16, 24))
    np.testing.assert_array_equal(pictures.read(slice(1, 3)), frames[1:])
    for other in (frames[0], frames.astype(np.float32), frames[..., :2], frames[:0]):
        with pytest.raises(DataError, match=r"expected an array uint8 \(T, H, W, 3\)"):
            array_pictures(other)
    with pytest.raises(DataError, match="frames: found a list, expected an array"):
        array_pictures(list(frames))


def test_what_is_no_clip_is_told(tmp_path, video):
    with pytest.raises(DataError, match="nowhere: no such folder or file"):
        open_pictures(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no pictures"):
        open_pictures(tmp_path)
    write_png(tmp_path / "1.png", gray(1))
    with pytest.raises(DataError, match=r"1\.png: a single picture; give the folder"):
        open_pictures(tmp_path / "1.png")
    text = tmp_path / "clip.txt"
    text.write_text("no video")
    with pytest.raises(DataError, match=r"clip\.txt: cannot be read as a video"):
        open_pictures(text)
    write_png(tmp_path / "1.bmp", gray(1))
    with pytest.raises(DataError, match=r"frames of one name \(1\):\n  - 1\.bmp and 1\.png"):
        open_pictures(tmp_path)
    (tmp_path / "1.png").rename(tmp_path / os.fsdecode(b"caf\xe9.png"))
    with pytest.raises(DataError, match=r"caf\\xe9\.png: the name is not UTF-8; rename"):
        open_pictures(tmp_path)
