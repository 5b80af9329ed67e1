"""The blurry frames of a clip that comes from outside: a folder of pictures, a video, an array."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.raw.numbering import frame_order
from vrtspike.deblurring.video import VideoInfo, inspect_video, read_video
from vrtspike.io.images import read_rgb
from vrtspike.system.errors import DataError, list_faults

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
KEPT_FRAMES = 32
"""Frames of a video that stay decoded: neighbouring windows share some, a writer lags behind."""


@dataclass(frozen=True)
class Pictures:
    """Frames of one size that can be read piece by piece.

    Attributes:
        place: their folder or file; in memory, what messages call them.
        names: of the frames, in order.
        size: height and width.
        read: gives consecutive frames, uint8 (T, H, W, 3) RGB; called from one thread at a time.
        describe: what messages call one frame.
        video: time stamps and pixel shape, if they are of a video file.
    """

    place: str | Path
    names: Sequence[str]
    size: tuple[int, int]
    read: Callable[[slice], NDArray[np.uint8]]
    describe: Callable[[int], str]
    video: VideoInfo | None = None

    def frame(self, number: int) -> NDArray[np.uint8]:
        """One frame, uint8 (H, W, 3) RGB."""
        return self.read(slice(number, number + 1))[0]


def folder_pictures(folder: Path, files: Sequence[Path] | None = None) -> Pictures:
    """The pictures of a folder in the order of the numbers in their names.

    Args:
        folder: with 8-bit RGB pictures, all of one size.
        files: which of them, in order; None is all.

    Raises:
        DataError: if there are none, two of one name, or the first cannot be read; as a picture is
            read, if it cannot be or is of another size than the first.
    """
    paths = picture_files(folder) if files is None else files
    height, width = read_rgb(paths[0]).shape[:2]

    def read(frames: slice) -> NDArray[np.uint8]:
        images = [read_rgb(path) for path in paths[frames]]
        for path, image in zip(paths[frames], images, strict=True):
            require_size(str(path), image, (height, width))
        return np.stack(images)

    names = [path.stem for path in paths]
    return Pictures(folder, names, (height, width), read, lambda frame: str(paths[frame]))


def video_pictures(path: Path) -> Pictures:
    """The frames of a video file, named by their numbers from 1: ``000001``, ``000002`` ...

    The file is decoded once when it is opened: only that tells how many frames there are, and that
    the last of them can be read, before hours are spent on the first.

    Args:
        path: the file.

    Raises:
        DataError: as for :func:`~vrtspike.deblurring.video.inspect_video`.
    """
    video = inspect_video(path)
    reader = _VideoReader(path)

    def read(frames: slice) -> NDArray[np.uint8]:
        return np.stack([reader.read(number) for number in range(frames.start, frames.stop)])

    def describe(frame: int) -> str:
        return f"{path}, frame {frame + 1}"

    return Pictures(path, numbered(video.frames), video.size, read, describe, video)


def array_pictures(frames: NDArray[np.uint8]) -> Pictures:
    """Frames in memory.

    Args:
        frames: uint8 (T, H, W, 3) RGB.

    Raises:
        DataError: if the array is another one.
    """
    frames = np.asarray(frames)
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 3 or not len(frames):
        raise DataError(
            f"frames: found {frames.dtype} of shape {frames.shape}, expected an array uint8 "
            "(T, H, W, 3), RGB, such as vrtspike.read_frames gives"
        )
    count, height, width = frames.shape[:3]
    return Pictures(
        "frames",
        numbered(count),
        (height, width),
        lambda part: frames[part],
        lambda frame: f"frames[{frame}]",
    )


class _VideoReader:
    """The frames of a video by their numbers, for one thread at a time.

    The latest frames stay decoded. For an earlier one the file is begun again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: deque[NDArray[np.uint8]] = deque(maxlen=KEPT_FRAMES)
        self._stream, self._next = read_video(path), 0

    def read(self, number: int) -> NDArray[np.uint8]:
        """One frame, uint8 (H, W, 3)."""
        if number < self._next - len(self._kept):
            self._stream, self._next = read_video(self._path), 0
            self._kept.clear()
        while self._next <= number:
            self._kept.append(next(self._stream))
            self._next += 1
        return self._kept[number - self._next]


def open_pictures(path: Path) -> Pictures:
    """The frames of a folder or of a video file, or a single picture.

    Raises:
        DataError: if it cannot be read.
    """
    if path.is_dir():
        return folder_pictures(path)
    if path.suffix.lower() in PICTURE_SUFFIXES:
        return folder_pictures(path.parent, [path])
    return video_pictures(path)


def read_frames(path: str | Path) -> NDArray[np.uint8]:
    """All frames of a folder of pictures or of a video file: uint8 (T, H, W, 3) RGB.

    A minute of 720p video takes 4 GB; ``vrtspike restore`` reads a clip piece by piece.

    Raises:
        DataError: if there are none, or one cannot be read or is of another size than the first.
    """
    pictures = open_pictures(Path(path))
    return pictures.read(slice(0, len(pictures.names)))


def picture_files(folder: Path) -> list[Path]:
    """The pictures of a folder in the order of the numbers in their names.

    Raises:
        DataError: if there are none, or two of one name.
    """
    files = [
        path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".")
    ]
    if not files:
        raise DataError(
            f"{folder}: no pictures ({', '.join(PICTURE_SUFFIXES)}); expected the frames of one "
            "sequence"
        )
    files.sort(key=lambda path: (frame_order(path.stem), path.name))
    pairs = zip(files[1:], files, strict=False)
    twice = [f"{other.name} and {path.name}" for path, other in pairs if path.stem == other.stem]
    if twice:
        raise DataError(list_faults(f"{folder}: frames of one name", twice, "Keep one of each."))
    return files


def require_size(name: str, image: NDArray[np.uint8], size: tuple[int, int]) -> None:
    """Refuse a frame of another size than the first of its clip.

    Raises:
        DataError: naming it.
    """
    if image.shape[:2] != size:
        raise DataError(
            f"{name}: {image.shape[0]} x {image.shape[1]} pixels, expected {size[0]} x {size[1]} "
            "as in the first frame; all frames of a sequence have one size"
        )


def numbered(count: int) -> list[str]:
    """Names of frames that have none.

    >>> numbered(2)
    ['000001', '000002']
    """
    return [f"{number:06d}" for number in range(1, count + 1)]
