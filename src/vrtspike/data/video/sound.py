"""The sound of a video, copied unchanged into an MP4 file."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.data.video.reading import VideoInfo

if TYPE_CHECKING:
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet
    from av.stream import Stream


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
        while self._next is not None and (time is None or _begin(self._next) < time):
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


@contextlib.contextmanager
def copied_sound(info: VideoInfo | None, output: OutputContainer) -> Iterator[SoundCopy | None]:
    """The sound of a video file on its way into another one; None without a file."""
    import av

    if info is None:
        yield None
        return
    with av.open(str(info.path)) as container:
        yield SoundCopy(info, container, output)


def uncopied_streams(path: str | Path) -> list[str]:
    """Describe the sound, subtitles and further videos of a file that a copy as MP4 lacks."""
    import av

    with av.open(str(path)) as container:
        first = container.streams.video[0]
        return [
            _describe(stream)
            for stream in container.streams
            if stream.index != first.index
            and stream.type in ("audio", "subtitle", "video")
            and not (stream.type == "audio" and _is_taken(path, stream.index))
        ]


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


def _begin(packet: Packet) -> Fraction:
    return (packet.pts or 0) * packet.time_base


def _describe(stream: Stream) -> str:
    codec = "unknown codec" if stream.codec_context is None else stream.codec_context.name
    return f"stream {stream.index}: {stream.type}, {codec}"
