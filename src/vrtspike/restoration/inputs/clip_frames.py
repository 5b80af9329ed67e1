"""The frames of a clip: a folder of pictures, a video file or an array."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.raw.numbering import frame_order
from vrtspike.data.video import VideoInfo, inspect_video, read_video
from vrtspike.io.images import Picture, read_picture, to_8_bit
from vrtspike.io.picture_files import READABLE_SUFFIXES, list_pictures
from vrtspike.system.errors import DataError, is_text, list_faults, printable

KEPT_FRAMES = 32
"""Minimum number of frames of a video that stay decoded."""
KEPT_WINDOWS = 3
"""Windows of frames that stay decoded: neighbouring ones share some, and while one is read ahead,
the frames of the one before it are compared with the restored ones."""
_PLAIN_NAMES = ("blur", "blur_gamma", "frames")
"""Folder names that do not name a sequence; its parent folder does."""

InputFrames: TypeAlias = str | Path | NDArray[np.uint8]
"""A folder of pictures, a video file, or an array uint8 (T, H, W, 3) RGB."""


class ClipFrames(ABC):
    """Frames of one size that can be read piece by piece.

    Attributes:
        path: their folder or file; None if they are in memory.
        names: names of the frames, in order.
        size: height and width.
        video: time stamps and pixel shape of a video file; None for pictures and arrays.
        bits: bits per channel of the files, 8 or 16.
        conversion: conversions of frames as they are read, in words; empty for 8-bit RGB.
    """

    video: VideoInfo | None = None
    bits = 8
    conversion = ""

    def __init__(self, path: Path | None, names: Sequence[str], size: tuple[int, int]) -> None:
        self.path = path
        self.names = names
        self.size = size

    @property
    def location(self) -> str:
        """Their folder or file, or the name of an array, in messages."""
        return "frames" if self.path is None else str(self.path)

    @abstractmethod
    def read(self, frames: slice) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """Return consecutive frames (T, H, W, 3) RGB; called from any thread.

        They are uint8 or, of files with 16 bits per channel, uint16.
        """

    @abstractmethod
    def describe(self, index: int) -> str:
        """Return the name of one frame in messages."""

    def model_input(self, frames: slice) -> NDArray[np.uint8] | NDArray[np.float32]:
        """Return a window of frames (T, H, W, 3) with all bits: uint8, or float32 up to 255."""
        images = self.read(frames)
        if images.dtype == np.uint8:
            return to_8_bit(images)
        return images.astype(np.float32) / np.float32(257)

    def frame(self, index: int) -> NDArray[np.uint8]:
        """Return one frame, uint8 (H, W, 3) RGB."""
        return to_8_bit(self.exact_frame(index))

    def exact_frame(self, index: int) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """Return one frame (H, W, 3) RGB with all its bits, 8 or 16."""
        return self.read(slice(index, index + 1))[0]


class FolderFrames(ClipFrames):
    """The pictures of a folder in the order of the numbers in their names.

    Args:
        folder: folder with pictures of one size and kind: RGB, grey or RGB with transparency, of 8
            or 16 bits.
        files: a selection of them, in order; None is all.

    Raises:
        DataError: if there are none, two of one name, a name that is not UTF-8, or the first cannot
            be read; later, if a picture cannot be read or differs from the first in size or kind.
    """

    def __init__(self, folder: Path, files: Sequence[Path] | None = None) -> None:
        self._paths = picture_files(folder) if files is None else files
        first = read_picture(self._paths[0])
        names = [path.stem for path in self._paths]
        super().__init__(folder, names, (first.rgb.shape[0], first.rgb.shape[1]))
        self.bits = first.bits
        self.conversion = _conversion(first)
        self._kind = first.kind

    def read(self, frames: slice) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """Return consecutive frames."""
        images = []
        for path in self._paths[frames]:
            picture = read_picture(path)
            require_size(str(path), picture.rgb, self.size)
            if (picture.kind, picture.bits) != (self._kind, self.bits):
                raise DataError(
                    f"{path}: found {picture.kind}, {picture.bits}-bit, expected {self._kind}, "
                    f"{self.bits}-bit as in the first frame; convert the frames to one kind"
                )
            images.append(picture.rgb)
        clip: NDArray[Any] = np.stack(images)
        return clip

    def describe(self, index: int) -> str:
        """Return the file of a frame."""
        return str(self._paths[index])


def _conversion(first: Picture) -> str:
    """Return the conversion of frames like this one, in words; empty for 8-bit RGB."""
    parts = []
    if first.kind == "grey":
        parts.append("grey is taken as RGB of three equal channels")
    if first.kind == "RGB with transparency":
        parts.append("transparency is dropped")
    if first.bits == 16:
        parts.append(
            f"16-bit values are taken with 65535 as white (highest of the first frame: "
            f"{int(first.rgb.max())}) and restored with 16 bits; metrics and videos have 8"
        )
    return "; ".join(parts)


class VideoFrames(ClipFrames):
    """The frames of a video file, named by their numbers from 1: ``000001``, ``000002`` ...

    The file is decoded once when it is opened: this counts the frames, and shows that the last of
    them can be read before hours are spent on the first. The latest frames stay decoded; the file
    is decoded again from its start for an earlier one.

    Args:
        path: the file.

    Raises:
        DataError: as for :func:`~vrtspike.data.video.inspect_video`.
    """

    def __init__(self, path: Path) -> None:
        video = inspect_video(path)
        super().__init__(path, numbered_names(video.frames), video.size)
        self.video = video
        self._path = path
        # Frames are read ahead in a thread while the main one compares them with others.
        self._lock = Lock()
        self._kept: deque[NDArray[np.uint8]] = deque(maxlen=KEPT_FRAMES)
        self._stream = read_video(path)
        self._next = 0

    def read(self, frames: slice) -> NDArray[np.uint8]:
        """Return consecutive frames."""
        return np.stack([self._decode(index) for index in range(frames.start, frames.stop)])

    def model_input(self, frames: slice) -> NDArray[np.uint8] | NDArray[np.float32]:
        """Return a window of frames, and keep those of several such windows decoded."""
        with self._lock:
            max_frames = KEPT_WINDOWS * len(range(*frames.indices(len(self.names))))
            if max_frames > (self._kept.maxlen or 0):
                self._kept = deque(self._kept, maxlen=max_frames)
        return super().model_input(frames)

    def describe(self, index: int) -> str:
        """Return the file and the number of a frame."""
        return f"{self._path}, frame {index + 1}"

    def _decode(self, index: int) -> NDArray[np.uint8]:
        """Return one frame, uint8 (H, W, 3)."""
        with self._lock:
            if index < self._next - len(self._kept):
                self._stream = read_video(self._path)
                self._next = 0
                self._kept.clear()
            while self._next <= index:
                self._kept.append(next(self._stream))
                self._next += 1
            return self._kept[index - self._next]


class ArrayFrames(ClipFrames):
    """Frames in memory.

    Args:
        frames: uint8 (T, H, W, 3) RGB.

    Raises:
        DataError: if the array has another type or shape.
    """

    def __init__(self, frames: NDArray[np.uint8]) -> None:
        frames = np.asarray(frames)
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 3 or not len(frames):
            raise DataError(
                f"frames: found {frames.dtype} of shape {frames.shape}, expected an array uint8 "
                "(T, H, W, 3), RGB, such as vrtspike.read_frames gives"
            )
        count, height, width = frames.shape[:3]
        super().__init__(None, numbered_names(count), (height, width))
        self._frames = frames

    def read(self, frames: slice) -> NDArray[np.uint8]:
        """Return consecutive frames."""
        return self._frames[frames]

    def describe(self, index: int) -> str:
        """Return the frame as an item of the array."""
        return f"frames[{index}]"


def open_frames(frames: InputFrames) -> ClipFrames:
    """Open the frames of a folder or of a video file, a single picture, or frames in memory.

    Raises:
        DataError: if they cannot be read, or an array has another type or shape.
    """
    if not isinstance(frames, str | Path):
        return ArrayFrames(frames)
    path = Path(frames)
    if path.is_dir():
        return FolderFrames(path)
    if path.suffix.lower() in READABLE_SUFFIXES:
        return FolderFrames(path.parent, [path])
    return VideoFrames(path)


def read_frames(path: str | Path) -> NDArray[np.uint8]:
    """Return all frames of a folder of pictures or of a video file: uint8 (T, H, W, 3) RGB.

    Grey pictures, pictures with transparency and of 16 bits are converted to 8-bit RGB, with a
    warning. A minute of 720p video takes 4 GB; ``vrtspike restore`` reads a clip piece by piece,
    and keeps 16 bits.

    Raises:
        DataError: if there are none, or one cannot be read or has another size than the first.
    """
    pictures = open_frames(path)
    if pictures.bits > 8:
        warnings.warn(f"{path}: 16-bit pictures are rounded to 8 bits", stacklevel=2)
    elif pictures.conversion:
        warnings.warn(f"{path}: {pictures.conversion}", stacklevel=2)
    return to_8_bit(pictures.read(slice(0, len(pictures.names))))


def picture_files(folder: Path) -> list[Path]:
    """Return the pictures of a folder in the order of the numbers in their names.

    Raises:
        DataError: if there are none, two of one name, or a name that is not UTF-8.
    """
    files = list_pictures(folder, READABLE_SUFFIXES)
    if not files:
        raise DataError(
            f"{folder}: no pictures ({', '.join(READABLE_SUFFIXES)}); expected the frames of one "
            "sequence"
        )
    unusable = [printable(path.name) for path in files if not is_text(path.name)]
    if unusable:
        title = f"{folder}: frames whose names are not UTF-8"
        raise DataError(list_faults(title, unusable, "Rename the files.", limit=10))
    files.sort(key=lambda path: (frame_order(path.stem), path.name))
    duplicates = [
        f"{first.name} and {second.name}"
        for first, second in pairwise(files)
        if first.stem == second.stem
    ]
    if duplicates:
        title = f"{folder}: frames of one name"
        raise DataError(list_faults(title, duplicates, "Keep one of each."))
    return files


def sharp_files(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the sharp frames of a clip by name, in the order of the clip.

    Args:
        folder: folder of sharp frames named as the blurry ones; others may lie there, too.
        names: names of the frames of the clip.

    Raises:
        DataError: naming the frames without one.
    """
    return files_by_name(folder, names, "frames without a sharp one")


def files_by_name(folder: Path, names: Sequence[str], fault: str) -> dict[str, Path]:
    """Return the pictures of a folder that have the names of frames, in the order of these.

    Args:
        folder: folder of pictures.
        names: names of the frames.
        fault: fault of frames without a picture, in words.

    Raises:
        DataError: naming these frames, or as for :func:`picture_files`.
    """
    files = {path.stem: path for path in picture_files(folder)}
    missing = [name for name in names if name not in files]
    if missing:
        title = f"{folder}: {fault}"
        raise DataError(list_faults(title, missing, "Name it as the blurry frame.", limit=10))
    return {name: files[name] for name in names}


def require_size(name: str, image: NDArray[np.generic], size: tuple[int, int]) -> None:
    """Reject a frame whose size differs from that of the first one.

    Raises:
        DataError: naming it.
    """
    if image.shape[:2] != size:
        raise DataError(
            f"{name}: {image.shape[0]} x {image.shape[1]} pixels, expected {size[0]} x {size[1]} "
            "as in the first frame; all frames of a sequence have one size"
        )


def numbered_names(count: int) -> list[str]:
    """Return names of frames that have none.

    >>> numbered_names(2)
    ['000001', '000002']
    """
    return [f"{number:06d}" for number in range(1, count + 1)]


def sequence_name(path: Path) -> str:
    """Return the name of the sequence of a folder of frames or of a video file.

    >>> sequence_name(Path("test/GOPR0384_11_00/blur")), sequence_name(Path("street.mp4"))
    ('GOPR0384_11_00', 'street')
    """
    absolute = path.absolute()
    if absolute.name in _PLAIN_NAMES and absolute.parent.name:
        return absolute.parent.name
    return absolute.stem if absolute.suffix else absolute.name
