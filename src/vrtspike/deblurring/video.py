"""Videos: frames into H.264 that browsers play, and video files into frames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vrtspike.deblurring.rgb_images import Image
from vrtspike.io.files import atomic_path
from vrtspike.system.errors import DataError

if TYPE_CHECKING:
    import av
    from av.container import InputContainer, OutputContainer
    from av.video.stream import VideoStream

FRAMES_PER_SECOND = 24
_QUALITY = "18"
"""x264's constant rate factor; about 18 nobody sees a difference to the frames."""
_BT709 = 1
"""Matrix, primaries and transfer of high-definition video, in the numbers of H.264."""
_BT601 = 5
_STUDIO = 1
"""FFmpeg's number of the range 16 to 235, which every player expects."""
_UNSPECIFIED = 2
_HIGH_DEFINITION = 720
"""Rows from which on players take video of unspecified colours for BT.709, below for BT.601."""
_MANY_RATES = 1_000_000
_HDR, _WIDE = {16, 18}, {9, 11, 12}
"""FFmpeg's numbers of transfer curves (PQ, HLG) and of primaries (BT.2020, DCI-P3, Display P3)."""


@contextlib.contextmanager
def video_file(
    path: str | Path, fps: float | Fraction = FRAMES_PER_SECOND
) -> Iterator[Callable[[Sequence[Image]], None]]:
    """Write an MP4 with H.264 (yuv420p); it stands at ``path`` once the body has ended.

    Odd sides get one more row or column, a copy of the last: the format has one colour for each two
    by two pixels.

    Args:
        path: ends in ``.mp4``.
        fps: frames per second.

    Yields:
        A function that appends one frame, given as uint8 (H, W, 3) RGB images that are shown side
        by side; sizes must not change. At least one frame must be written.
    """
    import av

    # The index first: a browser shows the beginning before it has the end.
    options = {"movflags": "faststart"}
    with (
        atomic_path(path) as temporary,
        av.open(str(temporary), "w", format="mp4", options=options) as container,
    ):
        stream: VideoStream | None = None

        def append(images: Sequence[Image]) -> None:
            nonlocal stream
            frame = np.concatenate(images, axis=1)
            height, width = frame.shape[:2]
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
            if stream is None:
                stream = _add_stream(container, frame, Fraction(fps))
            if frame.shape[:2] != (stream.height, stream.width):
                raise ValueError(
                    f"{path}: a frame of {frame.shape[:2]} pixels in a video of "
                    f"{(stream.height, stream.width)}"
                )
            pictured = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(
                format="yuv420p",
                dst_colorspace=_BT709,
                src_color_range="JPEG",
                dst_color_range="MPEG",
            )
            container.mux(stream.encode(pictured))

        yield append
        if stream is None:
            raise ValueError(f"{path}: a video needs at least one frame")
        container.mux(stream.encode(None))


def read_video(path: str | Path) -> Iterator[Image]:
    """Decode a video file, one frame at a time.

    Args:
        path: any format that FFmpeg reads.

    Yields:
        uint8 (H, W, 3) RGB, turned as its player would turn it.

    Raises:
        DataError: if it cannot be read, holds no video, is of high dynamic range or wide gamut, or
            breaks off.
    """
    import av

    with _open_video(Path(path)) as (container, stream):
        try:
            for frame in container.decode(stream):
                yield _decoded_colours(frame)
        except av.error.FFmpegError as error:
            raise DataError(
                f"{path}: the video breaks off or is damaged ({error.strerror}); cut or convert it "
                "with a video program, or give a folder of frames"
            ) from error


def video_rate(path: str | Path) -> Fraction:
    """Frames per second of a video file; those of films where it does not say.

    Raises:
        DataError: if it cannot be read or holds no video.
    """
    with _open_video(Path(path)) as (_, stream):
        return Fraction(stream.average_rate or FRAMES_PER_SECOND)


@contextlib.contextmanager
def _open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    import av

    try:
        container = av.open(str(path))
    except (av.error.FFmpegError, OSError) as error:
        raise DataError(
            f"{path}: cannot be read as a video ({error.strerror}); expected a video file such as "
            ".mp4, or a folder of frames"
        ) from error
    with container:
        if not container.streams.video:
            raise DataError(f"{path}: holds no video; expected a video file such as .mp4")
        stream = container.streams.video[0]
        context = stream.codec_context
        if context.color_trc in _HDR or context.color_primaries in _WIDE:
            raise DataError(
                f"{path}: found video of high dynamic range or of a wide gamut, expected standard "
                "range and BT.709: its colours would come out pale; convert it with a video program"
            )
        stream.thread_type = "AUTO"
        yield container, stream


def _add_stream(container: OutputContainer, frame: Image, rate: Fraction) -> VideoStream:
    stream = container.add_stream(
        "libx264", rate=rate.limit_denominator(_MANY_RATES), options={"crf": _QUALITY}
    )
    stream.height, stream.width = frame.shape[:2]
    stream.pix_fmt = "yuv420p"
    context = stream.codec_context
    context.colorspace = context.color_primaries = context.color_trc = _BT709
    context.color_range = _STUDIO
    return stream


def _decoded_colours(frame: av.VideoFrame) -> Image:
    colours = int(frame.colorspace)
    if colours == _UNSPECIFIED:
        colours = _BT709 if frame.height >= _HIGH_DEFINITION else _BT601
    pictured = frame.reformat(format="rgb24", src_colorspace=colours, dst_color_range="JPEG")
    image = pictured.to_ndarray().astype(np.uint8, copy=False)
    return np.ascontiguousarray(np.rot90(image, frame.rotation // 90))
