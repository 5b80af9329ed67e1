"""The length of motion that spikes show."""

from __future__ import annotations

import math
from fractions import Fraction

import cv2
import numpy as np
import pytest
from skimage import data as photographs

from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.paper_figures.recorded_spikes import RecordedSpikes


@pytest.mark.parametrize("speed", [0.5, 2, 4])
def test_the_motion_of_a_known_speed(speed):
    """11 source frames of 8 steps each, on a sensor of half the frame's size."""
    picture = photographs.astronaut()
    frames = [
        cv2.warpAffine(picture, np.float32([[1, 0, -speed * n], [0, 1, 0]]), (512, 512))[:256, :320]
        for n in range(13)
    ]
    spikes = simulate_spikes(frames)[:100]
    recorded = RecordedSpikes(PackedSpikes.pack(spikes), Exposure(6, 94, 50), Fraction(2), "made")
    assert recorded.motion() == pytest.approx(11 * speed, rel=0.05)


def test_motion_of_too_little_is_not_known():
    spikes = PackedSpikes.pack(np.ones((8, 40, 40), np.uint8))
    assert math.isnan(RecordedSpikes(spikes, Exposure(0, 2, 1), Fraction(2), "short").motion())
    small = PackedSpikes.pack(np.ones((88, 24, 40), np.uint8))
    assert math.isnan(RecordedSpikes(small, Exposure(0, 88, 44), Fraction(2), "small").motion())
