"""Reading of video files: frames, and the properties that a copy of the video keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.data.rgb_images import Image
from vrtspike.data.video.colors import to_rgb
from vrtspike.io.images import HDR_TRANSFERS, WIDE_PRIMARIES
from vrtspike.system.errors import DataError

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

FRAMES_PER_SECOND = 24
"""The default frame rate."""
_BROADCAST = {"mpegts", "mpeg"}
"""Formats whose timestamps start at an arbitrary value; those of others start at 0, or later on
purpose."""
_MICROSECONDS = 1_000_000
_MISSING_S = Fraction(1, 10)
_MISSING_STEPS = Fraction(3, 2)
"""A file is complete if its streams end at most so many seconds, or so many of the longest steps
between two frames, before the end that its header announces: headers are rounded."""
_EBML = b"\x1a\x45\xdf\xa3"
"""The first element of a Matroska file (.mkv, .webm), whose announced length FFmpeg does not check;
the segment is the second one."""
_SEGMENT = b"\x18\x53\x80\x67"
_HEAD = 4096
"""Bytes that are read; the two elements are at the beginning."""


@dataclass(frozen=True)
class VideoInfo:
    """The properties of a video that a restored copy keeps.

    Attributes:
        path: path of the file.
        size: height and width of its frames, turned as a player shows them.
        timestamps: when each frame is shown and when the last one ends, in units of ``time_base``.
        time_base: length of this unit in seconds.
        has_timestamps: false if the file has no usable time stamps, and frames are taken in equal
            steps.
        start: time of the file's own clock that ``timestamps`` count from, in seconds.
        rate: frames per second, on average.
        sample_aspect_ratio: width of a pixel divided by its height.
    """

    path: Path
    size: tuple[int, int]
    timestamps: tuple[int, ...]
    time_base: Fraction
    has_timestamps: bool
    start: Fraction
    rate: Fraction
    sample_aspect_ratio: Fraction

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.timestamps) - 1


def read_video(path: str | Path) -> Iterator[Image]:
    """Decode a video file, one frame at a time.

    Args:
        path: any format that FFmpeg reads.

    Yields:
        uint8 (H, W, 3) RGB, turned as its player would turn it.

    Raises:
        DataError: if it cannot be read, holds no video, is interlaced, of high dynamic range or
            wide gamut, is damaged, or breaks off.
    """
    with _open_video(Path(path)) as (container, stream):
        for frame in _decode(Path(path), container, stream):
            yield to_rgb(frame)


def inspect_video(path: str | Path) -> VideoInfo:
    """Decode a video file to its end without keeping a frame.

    Raises:
        DataError: as for :func:`read_video`; if it holds no frame, or their size changes.
    """
    path = Path(path)
    sizes: list[tuple[int, int]] = []
    shown: list[int | None] = []
    length = 0
    turned = False
    with _open_video(path) as (container, stream):
        for frame in _decode(path, container, stream):
            turned = frame.rotation % 180 != 0
            size = (frame.height, frame.width)
            sizes.append(size[::-1] if turned else size)
            shown.append(frame.pts)
            length = frame.duration
        start = Fraction(0)
        if container.format.name in _BROADCAST:
            start = Fraction(container.start_time or 0, _MICROSECONDS)
        rate = Fraction(stream.average_rate or FRAMES_PER_SECOND)
        shape = Fraction(stream.sample_aspect_ratio or 1)
        tick = Fraction(stream.time_base or 1 / rate)
    if len(set(sizes)) != 1:
        raise DataError(
            f"{path}: found {len(sizes)} frames of {len(set(sizes))} sizes, expected one size"
        )
    stamps = _rising_stamps(shown, round(start / tick), length, round(1 / rate / tick))
    timed = stamps is not None
    return VideoInfo(
        path=path,
        size=sizes[0],
        timestamps=stamps or tuple(range(len(sizes) + 1)),
        time_base=tick if timed else 1 / rate,
        has_timestamps=timed,
        start=start,
        rate=rate,
        sample_aspect_ratio=1 / shape if turned else shape,
    )


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
        is_wide = context.color_primaries in WIDE_PRIMARIES
        if context.color_trc in HDR_TRANSFERS or is_wide:
            raise DataError(
                f"{path}: found video of high dynamic range or of a wide gamut, expected standard "
                "range and BT.709: its colours would come out pale; convert it with a video program"
            )
        # With several threads a frame may be returned before its damage is known; threads that
        # share a frame of H.264 never report it.
        context.thread_count = 1
        yield container, stream


def _decode(path: Path, container: InputContainer, stream: VideoStream) -> Iterator[av.VideoFrame]:
    """Yield every frame of a valid file.

    All streams are read, because the length in a file's header is that of the longest one.
    """
    import av

    count = 0
    end = longest = Fraction(0)
    previous: Fraction | None = None
    cut = False
    try:
        for packet in container.demux():
            cut = cut or packet.is_corrupt
            end = max(end, _seconds(packet, packet.duration or 0))
            if packet.stream.index != stream.index:
                continue
            for frame in stream.decode(packet):
                count += 1
                _require_progressive(path, frame, count)
                if frame.is_corrupt:
                    raise _damaged(path, container, stream, count - 1)
                time = _seconds(frame)
                if previous is not None:
                    longest = max(longest, time - previous)
                previous = time
                yield frame
    except av.error.FFmpegError as error:
        raise _damaged(path, container, stream, count, f" ({error.strerror})") from error
    length = path.stat().st_size
    if length < (announced_bytes(path) or 0):
        cause = f" ({length} bytes of {announced_bytes(path)})"
        raise _damaged(path, container, stream, count, cause)
    missing = Fraction(container.duration or 0, _MICROSECONDS) - end
    if cut or missing > max(_MISSING_S, _MISSING_STEPS * longest):
        raise _damaged(path, container, stream, count)


def _seconds(timed: Packet | av.VideoFrame, ticks: int = 0) -> Fraction:
    """Time of a packet or a frame plus a number of ticks; 0 if it has none."""
    if timed.pts is None or timed.time_base is None:
        return Fraction(0)
    return (timed.pts + ticks) * timed.time_base


def _require_progressive(path: Path, frame: av.VideoFrame, index: int) -> None:
    """Reject interlaced frames."""
    if frame.interlaced_frame:
        raise DataError(
            f"{path}: frame {index} is interlaced, its odd and even rows are of two moments; "
            "expected progressive video. Deinterlace it with a video program (such as FFmpeg's "
            "filter bwdif); if it is progressive and marked wrongly, correct the mark (setfield)"
        )


def _damaged(
    path: Path, container: InputContainer, stream: VideoStream, count: int, cause: str = ""
) -> DataError:
    """Return the error of a file that is cut or damaged after some frames."""
    expected = ""
    if container.duration:
        seconds = Fraction(container.duration, _MICROSECONDS)
        frames = stream.frames or round(seconds * (stream.average_rate or FRAMES_PER_SECOND))
        expected = f"; its header announces {float(seconds):.2f} s, about {frames} frames"
    return DataError(
        f"{path}: the video breaks off or is damaged after {count} frames{cause}{expected}. Copy "
        "the file again; if it plays to its end, write it anew with a video program, or give a "
        "folder of frames"
    )


def _rising_stamps(
    frame_stamps: Sequence[int | None], start: int, length: int, typical_length: int
) -> tuple[int, ...] | None:
    """Return the time stamps of frames and the end of the last one; None if they are not usable.

    Args:
        frame_stamps: the stamp of each frame, None without one.
        start: stamp to count from.
        length: duration of the last frame; 0 if unknown.
        typical_length: duration of a frame on average.
    """
    # AVI stores the order of decoding: the stamps are right, but not those of their frames.
    stamps = sorted(stamp - start for stamp in frame_stamps if stamp is not None)
    if len(set(stamps)) < len(frame_stamps):
        return None
    if length <= 0 and len(stamps) > 1:
        length = stamps[-1] - stamps[-2]
    return (*stamps, stamps[-1] + max(1, length or typical_length))


def announced_bytes(path: Path) -> int | None:
    """Return length of a Matroska file by its header; None for other files, and if it is not given.

    A file is an EBML header and a segment, each with its identity, its size and its contents.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head.startswith(_EBML):
        return None
    size, start = _read_size(head, len(_EBML))
    if size is None:
        return None
    segment = start + size
    if head[segment : segment + len(_SEGMENT)] != _SEGMENT:
        return None
    size, start = _read_size(head, segment + len(_SEGMENT))
    return None if size is None else start + size


def _read_size(head: bytes, offset: int) -> tuple[int | None, int]:
    """Return the size of an element, None if unknown, and the place of its contents.

    The number of leading zeros of the first byte is the number of bytes that follow it; a size of
    ones is unknown.

    >>> _read_size(bytes([0x40, 0x05]), 0)
    (5, 2)
    >>> _read_size(bytes([0xFF]), 0)
    (None, 1)
    """
    length = 9 - head[offset].bit_length() if offset < len(head) else 9
    if length > 8 or offset + length > len(head):
        return None, offset
    # Behind the leading zeros and a one, 7 bits for each byte are left.
    all_ones = 2 ** (7 * length) - 1
    size = int.from_bytes(head[offset : offset + length]) & all_ones
    return (None if size == all_ones else size), offset + length
