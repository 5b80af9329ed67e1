"""Photographs and videos that come inside packages, so that nothing is downloaded."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from vrtspike.data.simulation.scenes import LinearPicture
from vrtspike.data.video.decoding import read_video
from vrtspike.system.errors import DataError
from vrtspike.system.packages import distribution_name, missing_package


def package_file(package: str, file: str) -> Path:
    """Return a file inside an installed package, which is not imported.

    Args:
        package: name that the package is imported by.
        file: path below its folder.

    Raises:
        DataError: if the package is not installed, or has no such file.
    """
    specification = find_spec(package)
    if specification is None or specification.origin is None:
        raise DataError(f"{file} is filmed: {missing_package(package)}")
    path = Path(specification.origin).parent / file
    if not path.is_file():
        raise DataError(f"{path}: missing; reinstall {distribution_name(package)}")
    return path


def read_photograph(package: str, file: str) -> LinearPicture:
    """Read a photograph inside a package: float32 (H, W, 3) RGB, 0 to 255.

    Raises:
        DataError: if the package or its file is missing or damaged.
    """
    path = package_file(package, file)
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise DataError(f"{path}: not a picture; reinstall {distribution_name(package)}")
    return np.ascontiguousarray(image[:, :, ::-1], dtype=np.float32)


def read_video_frame(package: str, file: str, index: int) -> LinearPicture:
    """Read a frame of a video inside a package: float32 (H, W, 3) RGB, 0 to 255.

    Args:
        package: name that the package is imported by.
        file: path below its folder.
        index: number of the frame, from 0.

    Raises:
        DataError: if the package, the video or the frame is missing or damaged.
    """
    path = package_file(package, file)
    frames = islice(read_video(path), index, None)
    frame = next(frames, None)
    if frame is None:
        raise DataError(f"{path}: no frame {index}; reinstall {distribution_name(package)}")
    return np.asarray(frame, dtype=np.float32)
