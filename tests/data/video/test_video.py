"""Videos written and read again: colours, order, size, rotation and invalid files."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest

from tests.data.video.samples import turned
from vrtspike.data.video import inspect_video, read_video, video_writer
from vrtspike.system.errors import DataError

RED, BLUE, WHITE, BLACK = (200, 0, 0), (20, 60, 220), (255, 255, 255), (0, 0, 0)


def quarters(height: int, width: int) -> np.ndarray:
    """Red, blue, white and black, as a page is read."""
    frame = np.zeros((height, width, 3), np.uint8)
    half = (height // 2, width // 2)
    frame[: half[0], : half[1]], frame[: half[0], half[1] :] = RED, BLUE
    frame[half[0] :, : half[1]], frame[half[0] :, half[1] :] = WHITE, BLACK
    return frame


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Five frames of two images side by side, the second getting lighter."""
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    with video_writer(path, fps=Fraction(30000, 1001)) as append:
        for number in range(5):
            append([quarters(64, 64), np.full((64, 64, 3), 50 * number, np.uint8)])
        assert not path.exists()
    assert [entry.name for entry in path.parent.iterdir()] == ["clip.mp4"]
    return path


def assert_quarters(image: np.ndarray, height: int, width: int) -> None:
    for row, column, color in (
        (0.25, 0.25, RED), (0.25, 0.75, BLUE), (0.75, 0.25, WHITE), (0.75, 0.75, BLACK),
    ):  # fmt: skip
        rgb = image[int(row * height), int(column * width)].astype(int)
        assert np.abs(rgb - color).max() <= 4, (row, column, rgb)


def test_every_frame_comes_back_in_its_colours_and_order(clip):
    frames = list(read_video(clip))
    assert len(frames) == 5
    for number, frame in enumerate(frames):
        assert (frame.dtype, frame.shape) == (np.uint8, (64, 128, 3))
        assert_quarters(frame, 64, 64)
        assert abs(frame[32, 96].mean() - 50 * number) <= 3
    assert inspect_video(clip).rate == Fraction(30000, 1001)


def test_what_browsers_ask_for(clip):
    with av.open(str(clip)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        context = stream.codec_context
        assert context.colorspace == context.color_primaries == context.color_trc == 1
    contents = clip.read_bytes()
    assert 0 < contents.index(b"moov") < contents.index(b"mdat")


def test_odd_sides_are_made_even_by_a_copy(tmp_path):
    with video_writer(tmp_path / "odd.mp4") as append:
        append([quarters(33, 47)])
    (frame,) = read_video(tmp_path / "odd.mp4")
    assert frame.shape == (34, 48, 3)
    assert_quarters(frame, 33, 47)
    assert np.abs(frame[33].astype(int) - frame[32]).max() <= 6
    assert inspect_video(tmp_path / "odd.mp4").rate == 24


def test_a_turned_video_is_read_as_players_show_it(tmp_path):
    path = tmp_path / "turned.mp4"
    with video_writer(path) as append:
        append([quarters(64, 128)])
    path.write_bytes(turned(path.read_bytes()))
    (frame,) = read_video(path)
    assert frame.shape == (128, 64, 3)
    assert np.abs(frame[32, 16].astype(int) - WHITE).max() <= 4
    assert np.abs(frame[32, 48].astype(int) - RED).max() <= 4


def test_what_is_no_video_is_told(tmp_path):
    text, sound, whole = (tmp_path / name for name in ("text.mp4", "sound.wav", "cut.mp4"))
    text.write_text("no video")
    with av.open(str(sound), "w") as container:
        container.add_stream("pcm_s16le", rate=8000)
        wave = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        wave.sample_rate = 8000
        container.mux(container.streams.audio[0].encode(wave))
    noise = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
    with video_writer(whole) as append:
        for frame in noise:
            append([frame])
    contents = whole.read_bytes()
    whole.write_bytes(contents[: len(contents) // 2])
    for path, message in (
        (tmp_path / "none.mp4", r"none\.mp4: cannot be read as a video"),
        (text, r"text\.mp4: cannot be read as a video"),
        (sound, r"sound\.wav: holds no video"),
        (whole, r"cut\.mp4: the video breaks off or is damaged"),
    ):
        with pytest.raises(DataError, match=message):
            list(read_video(path))


@pytest.mark.parametrize(
    ("widths", "message"), [((32, 34), "a frame of"), ((), "at least one frame")]
)
def test_a_video_has_frames_of_one_size_or_leaves_no_file(tmp_path, widths, message):
    def write() -> None:
        with video_writer(tmp_path / "clip.mp4") as append:
            for width in widths:
                append([quarters(32, width)])

    with pytest.raises(ValueError, match=message):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("curve", "primaries"),
    [(16, 9), (18, 9), (16, 1), (18, 1), (14, 9), (1, 12)],
    ids=["PQ", "HLG", "PQ of BT.709", "HLG of BT.709", "BT.2020", "Display P3"],
)
def test_what_is_no_standard_video_is_refused(tmp_path, curve, primaries):
    path = tmp_path / "phone.mov"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=24)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p10le"
        context = stream.codec_context
        context.color_trc, context.color_primaries, context.colorspace = curve, primaries, 9
        picture = np.full((32, 32, 3), 128, np.uint8)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    with pytest.raises(DataError, match=r"phone\.mov: found video of high dynamic range or of"):
        next(read_video(path))
