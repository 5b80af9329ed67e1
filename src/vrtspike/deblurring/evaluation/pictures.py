"""The blurry frames of a clip that comes from outside: a folder of pictures, a video, an array."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.raw.numbering import frame_order
from vrtspike.deblurring.video import read_video
from vrtspike.errors import DataError, is_text, list_faults, shown
from vrtspike.io.images import read_rgb

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
KEPT_FRAMES = 32
"""Frames of a stream that stay decoded: neighbouring windows share some, a writer lags behind."""

Item = TypeVar("Item")


class Pictures(Protocol):
    """Frames of one size that can be read piece by piece."""

    place: str
    """What messages call them."""

    names: Sequence[str]
    """Names of the frames, in order."""

    size: tuple[int, int]
    """Height and width."""

    def read(self, frames: slice) -> NDArray[np.uint8]:
        """Read consecutive frames, uint8 (T, H, W, 3) RGB; called from several threads."""

    def describe(self, frame: int) -> str:
        """What messages call one frame."""


class PictureFolder:
    """The pictures of a folder in the order of the numbers in their names.

    Args:
        folder: with 8-bit RGB pictures, all of one size.
        files: which of them, in order; None is all.

    Raises:
        DataError: if there are none, two of one name, or the first cannot be read.
    """

    def __init__(self, folder: Path, files: Sequence[Path] | None = None) -> None:
        self.place = str(folder)
        self._files = picture_files(folder) if files is None else files
        self.names: Sequence[str] = [path.stem for path in self._files]
        height, width = read_rgb(self._files[0]).shape[:2]
        self.size = (height, width)

    def read(self, frames: slice) -> NDArray[np.uint8]:
        """Read consecutive frames.

        Raises:
            DataError: if one cannot be read or is of another size than the first.
        """
        return np.stack([self._read(path) for path in self._files[frames]])

    def describe(self, frame: int) -> str:
        """The path of a frame."""
        return str(self._files[frame])

    def _read(self, path: Path) -> NDArray[np.uint8]:
        image = read_rgb(path)
        require_size(str(path), image, self.size)
        return image


class VideoFrames:
    """The frames of a video file, named by their numbers from 1: ``000001``, ``000002`` ...

    The file is decoded once when it is opened: only that tells how many frames there are, and that
    the last of them can be read, before hours are spent on the first.

    Args:
        path: the file.

    Raises:
        DataError: if it cannot be decoded to its end, holds no frame, or their size changes.
    """

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        frames = read_video(path)
        first = next(frames, None)
        if first is None:
            raise DataError(f"{path}: a video without a single frame")
        self.size = (first.shape[0], first.shape[1])
        count = 1
        for image in frames:
            count += 1
            require_size(f"{path}, frame {count}", image, self.size)
        self.names: Sequence[str] = numbered(count)
        self._reader = ForwardReader(lambda: read_video(path), KEPT_FRAMES)

    def read(self, frames: slice) -> NDArray[np.uint8]:
        """Decode consecutive frames."""
        return np.stack(self._reader.read(frames))

    def describe(self, frame: int) -> str:
        """The file and the number of a frame."""
        return f"{self.place}, frame {frame + 1}"


class ArrayFrames:
    """Frames in memory.

    Args:
        frames: uint8 (T, H, W, 3) RGB.

    Raises:
        DataError: if the array is another one.
    """

    place = "frames"

    def __init__(self, frames: NDArray[np.uint8]) -> None:
        if not isinstance(frames, np.ndarray):
            raise DataError(
                f"frames: found a {type(frames).__name__}, expected an array uint8 (T, H, W, 3), "
                "RGB, such as vrtspike.read_frames gives"
            )
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 3 or not len(frames):
            raise DataError(
                f"frames: found {frames.dtype} of shape {frames.shape}, expected uint8 "
                "(T, H, W, 3), RGB"
            )
        self._frames = frames
        self.names: Sequence[str] = numbered(len(frames))
        self.size = (frames.shape[1], frames.shape[2])

    def read(self, frames: slice) -> NDArray[np.uint8]:
        """Consecutive frames."""
        return self._frames[frames]

    def describe(self, frame: int) -> str:
        """The index of a frame."""
        return f"frames[{frame}]"


class ForwardReader(Generic[Item]):
    """Items of a stream that is read from its beginning, by their position; for several threads.

    The latest items are kept. For an earlier one the stream is begun again.

    Args:
        begin: begins the stream.
        keep: how many items stay, at least as many as are read at once.

    >>> reader = ForwardReader(lambda: iter("abcdef"), keep=2)
    >>> reader.read(slice(2, 4)), reader.read(slice(3, 5)), reader.read(slice(0, 1))
    (['c', 'd'], ['d', 'e'], ['a'])
    """

    def __init__(self, begin: Callable[[], Iterator[Item]], keep: int) -> None:
        self._begin = begin
        self._keep = keep
        self._lock = threading.Lock()
        self._restart()

    def read(self, items: slice) -> list[Item]:
        """The items from ``items.start`` to ``items.stop``, both given and within the stream."""
        with self._lock:
            return [self._item(position) for position in range(items.start, items.stop)]

    def _item(self, position: int) -> Item:
        if position < self._next and position not in self._kept:
            self._restart()
        while self._next <= position:
            self._kept[self._next] = next(self._stream)
            self._next += 1
            if len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        return self._kept[position]

    def _restart(self) -> None:
        self._stream = self._begin()
        self._next = 0
        self._kept: OrderedDict[int, Item] = OrderedDict()


def open_pictures(path: Path) -> Pictures:
    """The frames of a folder, or of a video file.

    Raises:
        DataError: if there is neither, or it cannot be read.
    """
    if path.is_dir():
        return PictureFolder(path)
    if not path.exists():
        raise DataError(f"{path}: no such folder or file; expected blurry frames or a video")
    if path.suffix.lower() in PICTURE_SUFFIXES:
        raise DataError(
            f"{path}: a single picture; give the folder of the clip that it belongs to (a clip of "
            "one frame is a folder with one picture)"
        )
    return VideoFrames(path)


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
        DataError: if there are none, two of one name, one that is no regular file, or one whose
            name is not UTF-8.
    """
    files = [
        path
        for path in folder.iterdir()
        if path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".")
    ]
    if not files:
        raise DataError(
            f"{folder}: no pictures ({', '.join(PICTURE_SUFFIXES)}); expected the frames of one "
            "sequence"
        )
    for path in files:
        if not path.is_file():
            raise DataError(f"{path}: found no regular file, expected a picture; remove it")
        if not is_text(path.name):
            raise DataError(f"{shown(str(path))}: the name is not UTF-8; rename the file")
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
