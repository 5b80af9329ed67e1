"""What the table of other sensors measures."""

from __future__ import annotations

import numpy as np

import robustness
from vrtspike.deblurring.data.simulation.demo import SCENES
from vrtspike.deblurring.data.simulation.sensor import SensorModel


def test_exposures_are_those_of_the_frames_and_one_bit_in_a_hundred_is_flipped() -> None:
    video = robustness.filmed(SCENES[0], 0, 3, (32, 48))
    spikes = robustness.exposures(video, SensorModel())
    assert [each.shape for each in spikes] == [(88, 16, 24)] * 3
    doubled = robustness.exposures(video, SensorModel(theta=4))
    assert 0.45 < np.mean(doubled) / np.mean(spikes) < 0.55
    flipped = robustness.flipped(spikes)
    changed = np.mean([a != b for a, b in zip(spikes, flipped, strict=True)])
    assert 0.009 < changed < 0.011


def test_the_table_has_differences_from_the_sensor_of_the_training_data() -> None:
    names = (*robustness.SENSORS, robustness.FLIPPED)
    known = {robustness.shipped(): {name: 30.0 - number for number, name in enumerate(names)}}
    lines = robustness.section(known).splitlines()
    assert lines[0] == f"| sensor; thresholds, faults: | **{robustness.shipped()}** |"
    assert f"| {robustness.CLEAN}: PSNR, dB | 30.00 |" in lines
    assert "| threshold 1 | -1.00 |" in lines
    assert f"| {robustness.FLIPPED} | -{len(names) - 1}.00 |" in lines
    assert len(lines) == 2 + len(names)
