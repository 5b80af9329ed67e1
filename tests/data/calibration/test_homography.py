"""The homography between two cameras; ``test_cameras.py`` measures its error."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.calibration.two_cameras import SENSOR
from tests.data.scenes import film
from vrtspike.data.calibration.homography import find_homography
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.io.images import read_gray
from vrtspike.system.errors import DataError


def test_scenes_without_common_features_or_pixels_are_refused(scenes):
    gray = np.full((2 * SENSOR[0], 2 * SENSOR[1]), 100, np.float32)
    with pytest.raises(DataError, match=r"0 features .* many details"):
        find_homography(gray, gray[: SENSOR[0], : SENSOR[1]])
    still = film(3, 1, 2 * SENSOR[0], 2 * SENSOR[1])[0]
    negative = read_gray(scenes / "static/blur/1.png").astype(np.float32)
    negative[:, 110:] = np.clip(255 - 2 * (negative[:, 110:] - 64), 0, 255)
    rate = simulate_spikes([still] * 30).mean(axis=0, dtype=np.float32)
    with pytest.raises(DataError, match=r"\d+ features .* but not their pixels"):
        find_homography(negative, rate)
