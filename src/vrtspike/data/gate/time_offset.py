"""The time offset between the frames of a camera and the steps of a spike sensor.

The mean of the spikes over an exposure is most like its frame where the exposure really was.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import TABLE, Exposure, read_exposures
from vrtspike.data.gate.alignment import MIN_CORRELATION, MIN_DISTINCTION, correlation_curve
from vrtspike.data.gate.homography import Matrix, warp_to_sensor
from vrtspike.data.gate.similarity import find_peak
from vrtspike.data.raw.layouts.folders import match_frames
from vrtspike.data.raw.spikes import Sensor, count_spike_frames
from vrtspike.data.simulation.sequence import frame_files
from vrtspike.io.images import read_gray
from vrtspike.system.errors import DataError

SPIKES = "spike.dat"
"""The spike file of a recording."""


class TimeOffset(NamedTuple):
    """A time offset and its quality.

    Attributes:
        steps: steps by which exposures were later than their table says.
        standard_error: standard error of the offset, in steps, from the differences between frames;
            None of a single frame.
        correlation: correlation of spikes and frames at this offset.
    """

    steps: float
    standard_error: float | None
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
    exposures = match_frames(read_exposures(moving / TABLE, has_sharp=False), files)
    unmatched = sorted(set(files) ^ set(exposures))
    if unmatched:
        raise DataError(f"{moving}: found {unmatched[0]} in only one of blur/ and {TABLE}")
    total = count_spike_frames(moving / SPIKES, *sensor.size)
    low, high = _offset_range(exposures, total, max_steps)
    if high <= low:
        raise DataError(
            f"{moving / TABLE}: exposures take all {total} steps of {SPIKES}; record some steps "
            "before the first and after the last exposure"
        )
    curves = []
    for name, exposure in exposures.items():
        spikes = sensor.read(moving / SPIKES, exposure.start + low, exposure.steps + high - low)
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


def _offset_range(exposures: dict[str, Exposure], total: int, max_steps: int) -> tuple[int, int]:
    """Return the smallest and largest offset that leave all exposures within the recorded steps."""
    low = -max_steps
    high = max_steps
    for exposure in exposures.values():
        low = max(low, -exposure.start)
        high = min(high, total - exposure.stop)
    return low, high
