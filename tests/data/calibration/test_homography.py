"""The homography between two cameras; ``test_cameras.py`` measures its error."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.calibration.two_cameras import SENSOR
from tests.data.scenes import film
from vrtspike.data.calibration.homography import displacement, find_homography
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.io.images import read_gray
from vrtspike.system.errors import DataError


def test_movement_is_measured_inside_the_border():
    before, after = (frame.mean(axis=-1, dtype=np.float32) for frame in film(3, 2, 48, 64))
    assert displacement(after, before) == pytest.approx(2, abs=0.05)
    # What is dull inside a border that is rich and stands still.
    inside = (slice(8, -8), slice(8, -8))
    pictures = []
    for frame in (before, after):
        picture = before.copy()
        picture[inside] = 128 + 0.2 * (frame[inside] - 128)
        pictures.append(picture)
    assert 1 < displacement(pictures[1], pictures[0]) < 2


@pytest.mark.parametrize("size", [(12, 64), (64, 23)])
def test_movement_of_pictures_that_are_too_small_is_refused(size):
    picture = np.zeros(size, np.float32)
    with pytest.raises(DataError, match=rf"{size[0]} x {size[1]} .* expected at least 24 x 24"):
        displacement(picture, picture)


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
