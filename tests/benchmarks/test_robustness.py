"""Values of the table of other sensors."""

from __future__ import annotations

import numpy as np

import robustness
from vrtspike.data.simulation.demo import SCENES


def test_exposures_are_those_of_the_frames_and_one_bit_in_a_hundred_is_flipped() -> None:
    video = robustness.filmed(SCENES[0], 0, 3, (32, 48))
    spikes = robustness.exposures(video, {})
    assert [stream.shape for stream in spikes] == [(88, 16, 24)] * 3
    doubled = robustness.exposures(video, {"theta": 4})
    assert 0.45 < np.mean(doubled) / np.mean(spikes) < 0.55
    flipped = robustness.flipped(spikes)
    changed = np.mean([a != b for a, b in zip(spikes, flipped, strict=True)])
    assert 0.009 < changed < 0.011


def test_heads_give_the_shares_of_augmented_clips():
    heads = [robustness.title(values) for values in ("0, 0", "0.3, 0", "0, 0.8", "0.3, 0.7")]
    assert heads == [
        "no augmentation",
        "thresholds 30 %",
        "faults 80 %",
        "thresholds 30 %, faults 70 %",
    ]
