"""Recordings of a spike sensor and of a camera beside it that sees a warped picture."""

from __future__ import annotations

import cv2
import numpy as np

from vrtspike.data.exposure import EXPOSURE_TABLE, exposure_table
from vrtspike.data.raw.spikes import write_spikes
from vrtspike.io.images import write_png

SENSOR = (120, 160)
OFFSET = 6.5
WARP = np.array([[1.02, 0.03, -9.0], [-0.02, 1.03, 4.0], [4e-5, -3e-5, 1.0]])
"""Homography from the pixels of a frame to those of the frame by another camera."""


def warped_by_other_camera(frame):
    """The frame as another camera sees it."""
    return cv2.warpPerspective(
        frame, WARP, frame.shape[1::-1], flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )


def max_error(homography, sensor, scale=2):
    """Maximum distance of a sensor point from its true place, in sensor pixels."""
    y, x = np.mgrid[8 : sensor[0] - 8 : 8, 8 : sensor[1] - 8 : 8]
    points = np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    half = (scale - 1) / 2
    to_frame = np.array([[scale, 0, half], [0, scale, half], [0, 0, 1.0]])
    actual = np.asarray(homography) @ points
    expected = WARP @ to_frame @ points
    difference = actual[:2] / actual[2] - expected[:2] / expected[2]
    return np.linalg.norm(difference, axis=0).max() / scale


def write_scene(folder, frames, spikes, exposures=None):
    """Write a recording of both cameras."""
    for name, frame in frames.items():
        write_png(folder / "blur" / f"{name}.png", frame)
    write_spikes(folder / "spike.dat", spikes)
    if exposures:
        (folder / EXPOSURE_TABLE).write_text(exposure_table(exposures))
