"""Video files as other programs write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from vrtspike.data.video import VideoInfo, inspect_video, read_video, video_writer

MILLISECOND = Fraction(1, 1000)
LANGUAGES = ("fra", "jpn", "spa")
"""Of the tracks of sound."""
VARIABLE = (0, 40, 80, 400, 440, 1000, 1100, 1200)
"""Milliseconds at which eight frames are shown."""


def write_sample(
    path: Path,
    milliseconds: Sequence[int] = tuple(range(0, 320, 40)),
    *,
    codec: str = "libx264",
    size: tuple[int, int] = (64, 96),
    pixels: str = "yuv420p",
    shape: Fraction | None = None,
    sound: Sequence[str] = (),
    interlaced: bool = False,
    index_first: bool = False,
) -> list[np.ndarray]:
    """Write a video of textured frames and a second of sound; gives the frames."""
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for _ in milliseconds]
    muxer = {"movflags": "faststart"} if index_first else {}
    with av.open(str(path), "w", options=muxer) as container:
        options = {"x264-params": "tff=1"} if interlaced else {}
        stream = container.add_stream(codec, rate=25, options=options)
        stream.height, stream.width, stream.pix_fmt = *size, pixels
        tick = Fraction(1, 25) if path.suffix == ".avi" else MILLISECOND
        stream.codec_context.time_base = tick
        if shape is not None:
            stream.codec_context.sample_aspect_ratio = shape
        tracks = [container.add_stream(name, rate=48000, layout="stereo") for name in sound]
        for number, track in enumerate(tracks):
            track.metadata["language"] = LANGUAGES[number]
        for image, stamp in zip(frames, milliseconds, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = round(stamp * MILLISECOND / tick), tick
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        for number, track in enumerate(tracks):
            _write_sound(container, track, 200 * (number + 1))
    return frames


def copy(path: Path, target: Path) -> tuple[VideoInfo, VideoInfo]:
    """Read a video and write it again; gives the properties of both files."""
    info = inspect_video(path)
    with video_writer(target, like=info) as append:
        for frame in read_video(path):
            append([frame])
    return info, inspect_video(target)


def seconds(info: VideoInfo) -> list[Fraction]:
    """The times at which the frames of a video are shown."""
    return [stamp * info.time_base for stamp in info.timestamps]


def _write_sound(container, track, frequency: int) -> None:
    wave = np.sin(np.arange(48000) * 2 * np.pi * frequency / 48000).astype(np.float32)
    resampler = av.AudioResampler(format=track.format, layout="stereo", rate=48000)
    for begin in range(0, 48000, 960):
        block = np.stack([wave[begin : begin + 960]] * 2)
        frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, begin, Fraction(1, 48000)
        for converted in resampler.resample(frame):
            container.mux(track.encode(converted))
    container.mux(track.encode(None))


def sound_languages(path: Path) -> list[str]:
    """The language of each sound stream."""
    with av.open(str(path)) as container:
        return [stream.metadata["language"] for stream in container.streams.audio]


def turned(contents: bytes) -> bytes:
    """An MP4 file whose video is shown turned clockwise, as that of a phone held upright."""
    # The track's matrix: 16.16 numbers.
    matrix = contents.index(b"tkhd") + 4 + 4 + 20 + 16
    assert struct.unpack_from(">9i", contents, matrix)[:5] == (65536, 0, 0, 0, 65536)
    changed = bytearray(contents)
    struct.pack_into(">5i", changed, matrix, 0, 65536, 0, -65536, 0)
    return bytes(changed)


def sound_begins(path: Path) -> list[Fraction]:
    """The beginning of each sound stream, in seconds of the file's clock."""
    begins = {}
    with av.open(str(path)) as container:
        for packet in container.demux(container.streams.audio):
            if packet.pts is not None:
                begins.setdefault(packet.stream.index, packet.pts * packet.time_base)
    return [begins[index] for index in sorted(begins)]


def sound_packets(path: Path) -> list[list[bytes]]:
    """The encoded packets of each sound stream."""
    with av.open(str(path)) as container:
        packets = {stream.index: [] for stream in container.streams.audio}
        for packet in container.demux(container.streams.audio):
            if packet.size:
                packets[packet.stream.index].append(bytes(packet))
    return list(packets.values())
