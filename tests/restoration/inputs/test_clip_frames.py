"""Clips from folders, videos and arrays, of 8 and 16 bits."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

import cv2
import numpy as np
import pytest

from vrtspike.data.video import read_video, video_writer
from vrtspike.io.images import write_png
from vrtspike.restoration.inputs import clip_frames
from vrtspike.restoration.inputs.clip_frames import ArrayFrames, open_frames, read_frames
from vrtspike.system.errors import DataError


def gray(level: int, height: int = 16, width: int = 24) -> np.ndarray:
    return np.full((height, width, 3), level, np.uint8)


def test_a_folder_holds_pictures_of_several_kinds_in_the_order_of_their_numbers(tmp_path):
    write_png(tmp_path / "10.PNG", gray(30))
    for name, level in (("9.jpg", 20), ("8.bmp", 10), ("11.tif", 40)):
        cv2.imwrite(str(tmp_path / name), gray(level))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".12.png").touch()
    folder = open_frames(tmp_path)
    assert (list(folder.names), folder.size) == (["8", "9", "10", "11"], (16, 24))
    assert folder.read(slice(0, 4))[:, 8, 8, 1].tolist() == [10, 20, 30, 40]
    assert folder.read(slice(2, 3)).shape == (1, 16, 24, 3)
    assert folder.describe(1) == str(tmp_path / "9.jpg")
    one = open_frames(tmp_path / "9.jpg")
    assert (one.names, one.read(slice(0, 1))[0, 8, 8, 1]) == (["9"], 20)
    write_png(tmp_path / "12.png", gray(50, height=20))
    with pytest.raises(DataError, match=r"12\.png: 20 x 24 pixels, expected 16 x 24"):
        open_frames(tmp_path).read(slice(0, 5))


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """50 frames that get lighter, more than stay decoded."""
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    with video_writer(path) as append:
        for number in range(50):
            append([gray(5 * number)])
    return path


def test_a_video_is_read_in_any_order_and_not_again_by_neighbouring_windows(video, monkeypatch):
    begun = []
    monkeypatch.setattr(
        clip_frames, "read_video", lambda path: begun.append(path) or read_video(path)
    )
    frames = open_frames(video)
    assert (len(frames.names), frames.names[0], frames.names[49]) == (50, "000001", "000050")
    assert frames.size == (16, 24)
    assert frames.describe(1) == f"{video}, frame 2"
    for part in (slice(0, 3), slice(40, 43), slice(41, 44), slice(20, 22), slice(0, 1)):
        levels = frames.read(part)[:, 8, 8, 0].astype(int)
        expected = 5 * np.arange(part.start, part.stop)
        assert np.abs(levels - expected).max() <= 3
    assert len(begun) == 2  # to be read, and again for the first frame


def test_frames_of_the_window_before_are_not_decoded_again_while_one_is_read_ahead(
    video, monkeypatch
):
    begun = []
    monkeypatch.setattr(
        clip_frames, "read_video", lambda path: begun.append(path) or read_video(path)
    )
    frames = open_frames(video)
    for window in (slice(0, 20), slice(20, 40)):
        frames.model_input(window)
    for index in range(40):
        assert abs(int(frames.frame(index)[8, 8, 0]) - 5 * index) <= 3
    assert len(begun) == 1


def test_a_window_may_be_the_whole_clip():
    frames = np.stack([gray(level) for level in (1, 2, 3)])
    np.testing.assert_equal(ArrayFrames(frames).model_input(slice(None)), frames)


LONG = 60
"""Seconds after which a thread that nobody wakes up gives up; never reached in a sound run."""


class WatchedLock:
    """A lock that sets an event when a thread has to wait for it."""

    def __init__(self, arrival: Event) -> None:
        self._lock = Lock()
        self._arrival = arrival

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._arrival.set()
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Decoder:
    """Frames as of ``read_video``; the first one is held back until a second reader arrives.

    The reader arrives in the decoder, which must not happen, or has to wait for the lock before it.
    """

    def __init__(self, arrival: Event) -> None:
        self.began = Event()
        self.is_entered_twice = False
        self._arrival = arrival
        self._entry = Lock()
        self._decoded = 0

    def __iter__(self) -> Decoder:
        return self

    def __next__(self) -> np.ndarray:
        if not self._entry.acquire(blocking=False):
            self.is_entered_twice = True
            self._arrival.set()
            return gray(255)
        self.began.set()
        assert self._arrival.wait(LONG)
        self._decoded += 1
        self._entry.release()
        return gray(self._decoded)


def test_one_thread_at_a_time_decodes_a_video(video, monkeypatch):
    arrival = Event()
    decoder = Decoder(arrival)
    monkeypatch.setattr(clip_frames, "Lock", lambda: WatchedLock(arrival))
    monkeypatch.setattr(clip_frames, "read_video", lambda path: decoder)
    frames = open_frames(video)
    with ThreadPoolExecutor(2) as threads:
        early = threads.submit(frames.read, slice(0, 1))
        assert decoder.began.wait(LONG)
        late = threads.submit(frames.read, slice(1, 2))
        levels = [int(read.result()[0, 0, 0, 0]) for read in (early, late)]
    assert not decoder.is_entered_twice
    assert levels == [1, 2]


def test_arrays_are_pictures_and_others_are_refused():
    frames = np.stack([gray(level) for level in (1, 2, 3)])
    clip = ArrayFrames(frames)
    assert (list(clip.names), clip.size) == (["000001", "000002", "000003"], (16, 24))
    np.testing.assert_array_equal(clip.read(slice(1, 3)), frames[1:])
    for other in (frames[0], frames.astype(np.float32), frames[..., :2], frames[:0]):
        with pytest.raises(DataError, match=r"expected an array uint8 \(T, H, W, 3\)"):
            ArrayFrames(other)


@pytest.mark.parametrize(
    ("files", "opened", "message"),
    [
        ((), "nowhere", r"nowhere: cannot be read as a video \(No such file"),
        ((), "", "no pictures"),
        (("clip.txt",), "clip.txt", r"clip\.txt: cannot be read as a video"),
        (("1.png", "1.bmp"), "", r"frames of one name \(1\):\n  - 1\.bmp and 1\.png"),
    ],
)
def test_inputs_without_frames_are_refused(tmp_path, files, opened, message):
    for name in files:
        (tmp_path / name).write_bytes(cv2.imencode(".png", gray(1))[1] if name[0] == "1" else b"?")
    with pytest.raises(DataError, match=message):
        open_frames(tmp_path / opened)


def test_frames_of_16_bits_are_read_exactly_and_rounded(tmp_path):
    levels = np.arange(16 * 24 * 3, dtype=np.uint16).reshape(16, 24, 3) * 50
    write_png(tmp_path / "1.png", levels)
    clip = open_frames(tmp_path)
    assert clip.bits == 16
    assert "65535 as white (highest of the first frame: 57550)" in clip.conversion
    np.testing.assert_allclose(clip.model_input(slice(0, 1))[0] * 257, levels, rtol=1e-6)
    assert clip.frame(0).dtype == np.uint8
    np.testing.assert_allclose(clip.frame(0), levels / 257, atol=0.5)
    with pytest.warns(UserWarning, match="16-bit pictures are rounded to 8 bits"):
        np.testing.assert_array_equal(read_frames(tmp_path)[0], clip.frame(0))


def test_a_conversion_gives_a_warning(tmp_path):
    write_png(tmp_path / "1.png", gray(1)[:, :, 0])
    with pytest.warns(UserWarning, match="grey is taken as RGB of three equal channels"):
        np.testing.assert_array_equal(read_frames(tmp_path)[0], gray(1))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (gray(1)[:, :, 0], "found grey, 8-bit, expected RGB, 8-bit as in the first frame"),
        (gray(1).astype(np.uint16), "found RGB, 16-bit, expected RGB, 8-bit"),
    ],
)
def test_frames_of_two_kinds_are_refused(tmp_path, other, message):
    write_png(tmp_path / "1.png", gray(1))
    write_png(tmp_path / "2.png", other)
    clip = open_frames(tmp_path)
    assert clip.conversion == ""
    with pytest.raises(DataError, match=rf"2\.png: {message}"):
        clip.read(slice(0, 2))


def test_a_frame_with_a_name_that_is_not_utf_8_is_refused(tmp_path):
    write_png(tmp_path / "1.png", gray(1))
    write_png(tmp_path / os.fsdecode(b"caf\xe9_2.png"), gray(1))
    with pytest.raises(DataError, match=r"names are not UTF-8 \(1\):\n  - caf\\xe9_2\.png\nRename"):
        open_frames(tmp_path)
