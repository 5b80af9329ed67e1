"""Videos: video files into frames, and frames into H.264 that browsers play."""

from __future__ import annotations

from vrtspike.data.video.decoding import FRAMES_PER_SECOND, VideoInfo, inspect_video, read_video
from vrtspike.data.video.encoding import uncopied_streams, video_writer

__all__ = [
    "FRAMES_PER_SECOND",
    "VideoInfo",
    "inspect_video",
    "read_video",
    "uncopied_streams",
    "video_writer",
]
