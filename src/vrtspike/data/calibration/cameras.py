"""Calibration of your own camera: the place and the time of its frames on a spike sensor.

A recording is a folder with ``blur/*`` (8-bit frames) and ``spike.dat``; that of a moving scene
also gives in ``exposures.csv`` the exposures of its frames, as well as they are known. A static
scene gives the homography between two cameras side by side
(:mod:`vrtspike.data.calibration.homography`), a moving scene the time offset
(:mod:`vrtspike.data.calibration.time_offset`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.calibration.homography import (
    covered_share,
    displacement,
    find_homography,
    scaling,
    to_bytes,
    warp_to_sensor,
)
from vrtspike.data.calibration.time_offset import TimeOffset, find_offset
from vrtspike.data.checks.alignment import DOUBTED
from vrtspike.data.raw.layouts.files import STREAM_FILE, sensor_file
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.recordings import find_sensor
from vrtspike.data.raw.spikes import count_steps
from vrtspike.data.simulation.sequence import frame_files
from vrtspike.io.files import write_json
from vrtspike.io.images import read_gray, shrink, write_png
from vrtspike.system.errors import DataError

MAX_STATIC_STEPS = 2000
"""Maximum steps of a static scene that are averaged."""
MAX_STATIC_FRAMES = 16
"""Maximum frames of a static scene that are averaged."""
GOOD_PIXELS = 0.5
"""Tolerated misalignment of frames and spikes, in sensor pixels."""
MIN_SPIKES = 2.5
"""Minimum spikes of a pixel in half a static recording, on average, for a verdict on movement: with
fewer, halves of simulated still scenes seem to differ by 0.3 sensor pixels and more, else by less
than 0.2."""
GOOD_STEPS = 0.5
"""Tolerated standard error of the time offset of a moving scene, in steps."""
MIN_COVERED = 0.95
"""Minimum share of the sensor covered by the frames; the rest repeats their border pixels."""


@dataclass(frozen=True)
class Calibration:
    """The result of a calibration.

    Attributes:
        frame_size: rows and columns of the frames.
        sensor_size: rows and columns of the picture.
        file_size: rows and columns of the sensor as in its files.
        homography: 3 x 3, from (x, y, 1) of a sensor pixel's centre to that of a frame's pixel.
        residual_pixels: median remaining misalignment, in sensor pixels.
        covered: share of the sensor's pixels that frames show.
        moved_pixels: sensor pixels by which the static scene moved while it was recorded; None if
            it is too dark or too short for a result.
        offset: time offset of the exposures; None without a moving scene.
    """

    frame_size: tuple[int, int]
    sensor_size: tuple[int, int]
    file_size: tuple[int, int]
    homography: list[list[float]]
    residual_pixels: float
    covered: float
    moved_pixels: float | None
    offset: TimeOffset | None

    @property
    def faults(self) -> list[str]:
        """Reasons not to use the result."""
        faults = []
        if self.moved_pixels is not None and self.moved_pixels > GOOD_PIXELS:
            faults.append(
                f"the static scene moved by {self.moved_pixels:.2f} sensor pixels while it was "
                "recorded (its first half against its second), expected at most "
                f"{GOOD_PIXELS}: record it again with cameras and scene at rest; otherwise the "
                "time offset is wrong, too"
            )
        if self.residual_pixels > GOOD_PIXELS:
            faults.append(
                f"{self.residual_pixels:.2f} sensor pixels of residual error, expected at most "
                f"{GOOD_PIXELS}: the scene moved, is too near, or a lens distorts"
            )
        if self.offset is not None:
            faults += _offset_faults(self.offset)
        if self.covered < MIN_COVERED:
            faults.append(
                f"frames show {self.covered:.0%} of what the sensor sees, expected "
                f"{MIN_COVERED:.0%}: turn the cameras to the same view, or use a wider lens"
            )
        return faults

    def contents(self) -> dict[str, Any]:
        """Return the contents of ``calibration.json``; values of the offset are null without it."""
        contents = asdict(self)
        del contents["offset"]
        if self.offset is None:
            return contents | dict.fromkeys(TimeOffset._fields)
        return contents | self.offset._asdict()


def _offset_faults(offset: TimeOffset) -> list[str]:
    faults = []
    if offset.residual_steps is not None and offset.residual_steps > GOOD_STEPS:
        faults.append(
            f"the time offset is known to {offset.residual_steps:.2f} steps, expected at most "
            f"{GOOD_STEPS}: record more frames, or faster motion"
        )
    if offset.correlation < DOUBTED:
        faults.append(
            f"frames and spikes of the moving scene correlate by {offset.correlation:.2f}, "
            f"expected {DOUBTED}: record a static scene with the cameras as they are now"
        )
    return faults


def calibrate_camera(
    static: Path,
    moving: Path | None,
    sensor_size: tuple[int, int] | None = None,
    max_steps: int = 200,
) -> tuple[Calibration, NDArray[np.uint8]]:
    """Find the homography and the time offset.

    Args:
        static: recording of a scene in which nothing moves.
        moving: recording of a moving scene; None if the time offset is not measured.
        sensor_size: rows and columns of the sensor as in its files; None finds them.
        max_steps: largest offset, either way.

    Returns:
        the result, and a picture of it: spikes in red and frames in cyan, before and after.

    Raises:
        DataError: if files are missing or do not fit, or a scene gives no result.
    """
    spike_file = static / STREAM_FILE
    sensor = find_sensor(spike_file, sensor_size, sensor_file(spike_file))
    frames = _read_frames(static / "blur")
    gray: NDArray[np.float32] = np.stack(frames).mean(axis=0, dtype=np.float32)
    steps = min(MAX_STATIC_STEPS, count_steps(spike_file, *sensor.size))
    spikes = sensor.read(spike_file, count=steps)
    rate = spikes.count_image() / np.float32(steps)
    homography = find_homography(gray, rate)
    unregistered = shrink(
        warp_to_sensor(gray, scaling(gray.shape, rate.shape), rate.shape), *rate.shape
    )
    registered = shrink(warp_to_sensor(gray, homography, rate.shape), *rate.shape)
    offset = None
    if moving is not None:
        offset = find_offset(moving, sensor, homography, max_steps)
    calibration = Calibration(
        frame_size=(gray.shape[0], gray.shape[1]),
        sensor_size=(rate.shape[0], rate.shape[1]),
        file_size=sensor.size,
        homography=homography.tolist(),
        residual_pixels=displacement(registered, rate),
        covered=covered_share(homography, gray.shape, rate.shape),
        moved_pixels=_movement(spikes, frames),
        offset=offset,
    )
    red = np.hstack([to_bytes(rate), to_bytes(rate)])
    cyan = np.hstack([to_bytes(unregistered), to_bytes(registered)])
    return calibration, np.dstack([red, cyan, cyan])


def _read_frames(folder: Path) -> list[NDArray[np.uint8]]:
    """Return the first frames of a static scene, grey and of one size.

    Raises:
        DataError: if one cannot be read or has another size.
    """
    frames: list[NDArray[np.uint8]] = []
    for path in frame_files(folder)[:MAX_STATIC_FRAMES]:
        frame = read_gray(path)
        frames.append(frame)
        require_frame_size(path, frame, frames[0].shape)
    return frames


def save_calibration(folder: Path, calibration: Calibration, picture: NDArray[np.uint8]) -> None:
    """Write ``calibration.json`` and ``calibration.png``."""
    write_json(folder / "calibration.json", calibration.contents())
    write_png(folder / "calibration.png", picture)


def require_frame_size(path: Path, picture: NDArray[np.uint8], size: Sequence[int]) -> None:
    """Reject a frame of another size than those of the calibration.

    Args:
        path: path of the frame.
        picture: (H, W) or (H, W, 3).
        size: rows and columns that are expected.

    Raises:
        DataError: naming the frame.
    """
    if picture.shape[:2] != tuple(size):
        raise DataError(
            f"{path}: {picture.shape[0]} x {picture.shape[1]}, expected the size of the "
            f"calibration's frames, {size[0]} x {size[1]}"
        )


def _movement(spikes: PackedSpikes, frames: Sequence[NDArray[np.uint8]]) -> float | None:
    """Sensor pixels by which a scene moved, by the halves of its spikes and of its frames.

    The means of two halves are half as far from each other as the ends of a steady movement.

    Args:
        spikes: spikes of the scene.
        frames: frames of the scene, in order.

    Returns:
        the larger of both; None if there are too few spikes and frames.
    """
    distances = []
    half = len(spikes) // 2
    first = spikes.count_image(0, half)
    second = spikes.count_image(len(spikes) - half)
    if first.mean() >= MIN_SPIKES:
        distances.append(displacement(first, second))
    half = len(frames) // 2
    if half:
        rows, columns = spikes.shape[1:]
        first = _mean_frame(frames[:half], rows, columns)
        second = _mean_frame(frames[-half:], rows, columns)
        distances.append(displacement(first, second))
    if not distances:
        return None
    return 2 * max(distances)


def _mean_frame(
    frames: Sequence[NDArray[np.uint8]], rows: int, columns: int
) -> NDArray[np.float32]:
    """Return the mean of frames at the sensor's size."""
    return shrink(np.stack(frames).mean(axis=0, dtype=np.float32), rows, columns)
