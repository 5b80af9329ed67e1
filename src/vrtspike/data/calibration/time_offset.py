"""The time offset between the frames of a camera and a spike sensor, from a scene that moves.

The mean of the spikes over an exposure is most like its frame where the exposure really was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.calibration.homography import Matrix, warp_to_sensor
from vrtspike.data.checks.alignment import MIN_CORRELATION, MIN_DISTINCTION, correlation_curve
from vrtspike.data.checks.similarity import find_peak
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, read_exposures
from vrtspike.data.raw.layouts.files import STREAM_FILE
from vrtspike.data.raw.layouts.folders import match_frames
from vrtspike.data.raw.spikes import Sensor, count_steps
from vrtspike.data.simulation.sequence import frame_files
from vrtspike.io.images import read_gray
from vrtspike.system.errors import DataError


class TimeOffset(NamedTuple):
    """The steps by which exposures were later than ``exposures.csv`` says.

    Attributes:
        offset_steps: their number; below 0 if exposures were earlier.
        residual_steps: standard error of it, from the differences between frames; None of a single
            frame.
        correlation: correlation of spikes and frames at this offset.
    """

    offset_steps: float
    residual_steps: float | None
    correlation: float


def find_offset(moving: Path, sensor: Sensor, homography: Matrix, max_steps: int) -> TimeOffset:
    """Find the number of steps by which exposures were later than ``exposures.csv`` says.

    Args:
        moving: recording of a scene that moves.
        sensor: sensor of its spikes.
        homography: homography from the sensor to the frames.
        max_steps: largest offset, either way.

    Raises:
        DataError: if files do not fit together, nothing moves, or the offset is not within
            ``max_steps``.
    """
    files = {path.stem: path for path in frame_files(moving / "blur")}
    exposures = _read_exposures(moving, files)
    low, high = _offset_range(moving, exposures, sensor, max_steps)
    curves = []
    for name, exposure in exposures.items():
        steps = exposure.steps + high - low
        spikes = sensor.read(moving / STREAM_FILE, exposure.start + low, steps)
        frame = read_gray(files[name]).astype(np.float32)
        warped = warp_to_sensor(frame, homography, spikes.shape[1:])
        # The correlations, one for each offset from low to high.
        _, curve = correlation_curve(spikes, warped, exposure.steps)
        curves.append(curve)
    mean: NDArray[np.float64] = np.mean(curves, axis=0)
    peak, correlation = find_peak(mean)
    if correlation < MIN_CORRELATION or correlation - float(mean.min()) < MIN_DISTINCTION:
        raise DataError(
            f"{moving}: frames and spikes correlate by {correlation:.2f} at best and "
            f"{mean.min():.2f} at worst, expected at least {MIN_CORRELATION} and a difference of "
            f"{MIN_DISTINCTION}: nothing moves, or they show different scenes"
        )
    if int(mean.argmax()) in (0, len(mean) - 1):
        raise DataError(
            f"{moving}: the best offset is at the end of {low} to {high} steps: allow "
            "larger offsets, or record more steps before and after the exposures"
        )
    frame_offsets = [low + find_peak(curve)[0] for curve in curves]
    standard_error = None
    if len(frame_offsets) > 1:
        standard_error = float(np.std(frame_offsets, ddof=1) / np.sqrt(len(frame_offsets)))
    return TimeOffset(round(low + peak, 3), standard_error, correlation)


def _read_exposures(moving: Path, frames: Collection[str]) -> dict[str, Exposure]:
    """Return the exposures of a recording by the names of its frames.

    Raises:
        DataError: if a frame has no exposure, or an exposure no frame.
    """
    table = read_exposures(moving / EXPOSURE_TABLE, has_sharp=False)
    exposures = match_frames(table, frames)
    unmatched = sorted(set(frames) ^ set(exposures))
    if unmatched:
        raise DataError(f"{moving}: found {unmatched[0]} in only one of blur/ and {EXPOSURE_TABLE}")
    return exposures


def _offset_range(
    moving: Path, exposures: Mapping[str, Exposure], sensor: Sensor, max_steps: int
) -> tuple[int, int]:
    """Return the smallest and largest offset that leave all exposures within the recorded steps.

    Raises:
        DataError: if exposures take all steps.
    """
    total = count_steps(moving / STREAM_FILE, *sensor.size)
    low = max(-max_steps, -min(exposure.start for exposure in exposures.values()))
    high = min(max_steps, total - max(exposure.stop for exposure in exposures.values()))
    if high <= low:
        raise DataError(
            f"{moving / EXPOSURE_TABLE}: exposures take all {total} steps of {STREAM_FILE}; record "
            "some steps before the first and after the last exposure"
        )
    return low, high
