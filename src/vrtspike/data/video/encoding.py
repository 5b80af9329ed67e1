"""Writing of videos in H.264, which browsers play."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vrtspike.data.rgb_images import Image
from vrtspike.data.video.colors import BT709, to_video_frame
from vrtspike.data.video.decoding import FRAMES_PER_SECOND, VideoInfo
from vrtspike.io.files import atomic_path
from vrtspike.system.rounding import round_up

if TYPE_CHECKING:
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

_OPTIONS = {"crf": "18", "bf": "0"}
"""x264's constant rate factor, at 18 without a visible difference to the frames; and no B-frames,
with which MP4 states a wrong length of videos of a variable frame rate."""
_STUDIO = 1
"""FFmpeg's number of the range 16 to 235, which every player expects."""
_MANY_RATES = 1_000_000
_MIN_TIMESCALE = 10_000


class SoundCopy:
    """Copies the packets of all sound streams that MP4 takes, in step with the pictures."""

    def __init__(self, info: VideoInfo, container: InputContainer, output: OutputContainer) -> None:
        """Add the streams to the output.

        Args:
            info: properties of the video file.
            container: the file, opened for this copy alone.
            output: an MP4 file to which nothing has been written yet.
        """
        self._output = output
        self._targets = {}
        for stream in container.streams.audio:
            if _is_taken(info.path, stream.index):
                target = output.add_stream_from_template(stream)
                if "language" in stream.metadata:
                    target.metadata["language"] = stream.metadata["language"]
                self._targets[stream.index] = target
        self._packets = self._demux(container, info.start)
        self._next = next(self._packets, None)

    def copy_until(self, time: Fraction | None) -> None:
        """Copy the packets that begin before a time in seconds; the rest if None."""
        while self._next is not None:
            if time is not None and (self._next.pts or 0) * self._next.time_base >= time:
                return
            self._next.stream = self._targets[self._next.stream.index]
            self._output.mux(self._next)
            self._next = next(self._packets, None)

    def _demux(self, container: InputContainer, start: Fraction) -> Iterator[Packet]:
        streams = [stream for stream in container.streams if stream.index in self._targets]
        if not streams:
            return
        for packet in container.demux(streams):
            # The last packet of a stream is empty and only ends decoding.
            if packet.dts is not None and packet.pts is not None:
                shift = round(start / packet.time_base)
                packet.pts -= shift
                packet.dts -= shift
                yield packet


def uncopied_streams(path: str | Path) -> list[str]:
    """Describe the sound, subtitles and further videos of a file that a copy as MP4 lacks."""
    import av

    with av.open(str(path)) as container:
        first = container.streams.video[0]
        descriptions = []
        for stream in container.streams:
            is_copied = stream.type == "audio" and _is_taken(path, stream.index)
            is_shown = stream.type in ("audio", "subtitle", "video")
            if stream.index == first.index or is_copied or not is_shown:
                continue
            context = stream.codec_context
            codec = "unknown codec" if context is None else context.name
            descriptions.append(f"stream {stream.index}: {stream.type}, {codec}")
        return descriptions


def _is_taken(path: str | Path, index: int) -> bool:
    """Return whether MP4 takes a stream, by writing its first packet to a file in memory.

    The header alone does not show this: MP4 accepts PCM, but not without the positions of its
    channels.
    """
    import av

    try:
        with av.open(str(path)) as source, av.open(io.BytesIO(), "w", format="mp4") as trial:
            stream = source.streams[index]
            target = trial.add_stream_from_template(stream)
            packet = next(source.demux(stream))
            packet.stream = target
            trial.mux(packet)
    except (ValueError, av.error.FFmpegError):
        return False
    return True


@contextlib.contextmanager
def video_writer(
    path: str | Path, fps: float | Fraction = FRAMES_PER_SECOND, *, like: VideoInfo | None = None
) -> Iterator[Callable[[Sequence[Image]], None]]:
    """Write an MP4 with H.264 (yuv420p); it stands at ``path`` once the body has ended.

    Odd sides get one more row or column, a copy of the last: the format has one colour for each two
    by two pixels.

    Args:
        path: ends in ``.mp4``.
        fps: frames per second.
        like: the video whose time stamps, shape of pixels and sound are kept; ``fps`` is ignored.
            Sound that MP4 does not take is left out (:func:`uncopied_streams`).

    Yields:
        A function that appends one frame, given as uint8 (H, W, 3) RGB images that are shown side
        by side; sizes must not change. At least one frame must be written, and as many as ``like``
        has.
    """
    import av

    # The index comes first, so that a browser shows the beginning before it has the end.
    options = {"movflags": "faststart"}
    if like is not None:
        # The start times of streams are given in multiples of the time stamps' units.
        options["movie_timescale"] = str(round_up(_MIN_TIMESCALE, like.time_base.denominator))
    with atomic_path(path) as temporary, contextlib.ExitStack() as stack:
        opened = av.open(str(temporary), "w", format="mp4", options=options)
        container = stack.enter_context(opened)
        source = None if like is None else stack.enter_context(av.open(str(like.path)))
        writer = _VideoWriter(Path(path), container, Fraction(fps), like, source)
        yield writer.append
        writer.finish()


class _VideoWriter:
    """Encodes frames, and copies sound between them."""

    def __init__(
        self,
        path: Path,
        container: OutputContainer,
        fps: Fraction,
        like: VideoInfo | None,
        source: InputContainer | None,
    ) -> None:
        self._path = path
        self._container = container
        self._source = source
        self._rate = fps if like is None else like.rate
        self._like = like
        self._durations: dict[int, int] = {}
        if like is not None:
            steps = itertools.pairwise(like.timestamps)
            self._durations = {stamp: following - stamp for stamp, following in steps}
        self._count = 0
        self._stream: VideoStream | None = None
        self._sound: SoundCopy | None = None

    def append(self, images: Sequence[Image]) -> None:
        """Encode one frame."""
        frame = np.concatenate(images, axis=1)
        height, width = frame.shape[:2]
        frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        if self._stream is None:
            self._stream = self._add_stream(frame)
            if self._like is not None and self._source is not None:
                self._sound = SoundCopy(self._like, self._source, self._container)
        if frame.shape[:2] != (self._stream.height, self._stream.width):
            raise ValueError(
                f"{self._path}: a frame of {frame.shape[:2]} pixels in a video of "
                f"{(self._stream.height, self._stream.width)}"
            )
        encoded = to_video_frame(frame)
        if self._like is not None:
            if self._count == self._like.frames:
                raise ValueError(f"{self._path}: more frames than {self._like.path} has")
            encoded.pts = self._like.timestamps[self._count]
            encoded.time_base = self._like.time_base
            if self._sound is not None:
                self._sound.copy_until(encoded.pts * self._like.time_base)
        self._count += 1
        self._mux(self._stream.encode(encoded))

    def finish(self) -> None:
        """Write the remaining frames of the encoder, and the rest of the sound."""
        if self._stream is None:
            raise ValueError(f"{self._path}: a video needs at least one frame")
        if self._like is not None and self._count != self._like.frames:
            raise ValueError(
                f"{self._path}: {self._count} frames, expected {self._like.frames} as in "
                f"{self._like.path}"
            )
        self._mux(self._stream.encode(None))
        if self._sound is not None:
            self._sound.copy_until(None)

    def _add_stream(self, frame: Image) -> VideoStream:
        rate = self._rate.limit_denominator(_MANY_RATES)
        stream = self._container.add_stream("libx264", rate=rate, options=_OPTIONS)
        stream.height, stream.width = frame.shape[:2]
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = BT709
        context.color_range = _STUDIO
        if self._like is not None:
            context.time_base = self._like.time_base
            context.sample_aspect_ratio = self._like.sample_aspect_ratio
        return stream

    def _mux(self, packets: Sequence[Packet]) -> None:
        if self._like is not None:
            for packet in packets:
                # The encoder gives every frame the mean duration.
                packet.duration = self._durations[packet.pts or 0]
        self._container.mux(packets)
