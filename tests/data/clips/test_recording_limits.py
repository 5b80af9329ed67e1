"""Ranges of a training: from the manifests of its stores, and from its augmentation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vrtspike.data.clips.recording_limits import RecordingLimits, limits_of_store, training_limits
from vrtspike.deblurring_settings import DeblurringSettings


def test_a_store_has_the_ranges_of_its_sequence():
    store = {
        "spike_size": [24, 32], "rgb_size": [96, 128], "gain": 2.5,
        "exposures": [[0, 56, 24.0], [4, 84, 40.0]],
        # 3 voxels of 2 steps without a spike and 1 with two; 4 of 3 steps with one.
        "histogram": {"2": [3, 0, 1], "3": [0, 4, 0, 0]},
    }  # fmt: skip
    assert limits_of_store(store) == {
        "gain": [2.5, 2.5], "rate": [6 / 20, 6 / 20], "ratio": [4.0, 4.0], "steps": [56, 80],
    }  # fmt: skip
    assert limits_of_store(store | {"spike_size": None}) is None


DARK = RecordingLimits((2.0, 2.0), (0.1, 0.1), (2.0, 2.0), (56, 56))
BRIGHT = RecordingLimits((1.5, 1.5), (0.4, 0.4), (2.0, 2.0), (80, 88))


def trained_on(*sequences: RecordingLimits | None, **data: float) -> RecordingLimits | None:
    return training_limits(sequences, DeblurringSettings.model_validate({"DATA": data}).DATA)


def test_a_training_has_the_ranges_of_its_sequences_and_of_its_augmentation():
    off = {"THRESHOLD_AUGMENT": 0.0, "FAULT_AUGMENT": 0.0}
    plain = RecordingLimits((1.5, 2.0), (0.1, 0.4), (2.0, 2.0), (56, 88))
    assert trained_on(DARK, BRIGHT, **off) == plain
    raised = trained_on(DARK, BRIGHT, **off | {"THRESHOLD_AUGMENT": 0.5})
    assert raised.gain == (1.5, 6.0)
    assert raised.rate == pytest.approx((0.1 / 3, 0.4))
    faulty = trained_on(DARK, BRIGHT, **off | {"FAULT_AUGMENT": 0.5})
    assert faulty.gain == pytest.approx((1.5 * 0.4 / 0.442, 2.0))
    assert faulty.rate == pytest.approx((0.0978, 0.442))
    resized = trained_on(DARK, BRIGHT, **off | {"RATIO_AUGMENT": 0.5})
    assert resized == replace(plain, ratio=(1.0, 4.0))
    # Cameras of half the size would have frames smaller than the sensor.
    full = replace(DARK, ratio=(1.5, 1.5))
    assert trained_on(full, **off | {"RATIO_AUGMENT": 0.5}).ratio == (1.5, 3.0)
    assert trained_on(DARK, None, **off) is None
    assert trained_on(**off) is None
