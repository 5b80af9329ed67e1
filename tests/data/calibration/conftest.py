"""Fixtures of the tests of the calibration."""

from __future__ import annotations

import pytest

from tests.data.calibration.two_cameras import OFFSET, SENSOR, warped_by_other_camera, write_scene
from tests.data.scenes import film
from vrtspike.data.exposure import Exposure
from vrtspike.data.simulation.sensor import simulate_spikes, synthesize_blur


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """A static and a moving scene, whose table has exposures OFFSET steps too early."""
    root = tmp_path_factory.mktemp("scenes")
    size = (2 * SENSOR[0], 2 * SENSOR[1])
    still = film(3, 1, *size)[0]
    write_scene(
        root / "static", {"1": warped_by_other_camera(still)}, simulate_spikes([still] * 30)
    )
    frames = film(4, 40, *size, speed=2)
    blurry = {}
    exposures = {}
    for first in (4, 16):
        # Means of frames at steps 8 n: those of 88 spike steps that begin 3.5 earlier.
        start = int(8 * first - 3.5 - OFFSET)
        blurry[str(first)] = warped_by_other_camera(synthesize_blur(frames[first : first + 11]))
        exposures[str(first)] = Exposure(start, start + 88, start + 43.5)
    write_scene(root / "data/train/moving", blurry, simulate_spikes(frames), exposures)
    return root
