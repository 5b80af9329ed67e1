"""Verdicts on the times of exposures, from the centres that were located."""

from __future__ import annotations

from typing import Any

import pytest

from vrtspike.data.checks.exposure_faults import time_faults


def exposure(center: float | None, correlation: float = 0.9, steps: int = 88) -> dict[str, Any]:
    return {
        "path": "train/a/spike/000001.dat",
        "steps": steps,
        "sharp": (steps - 8) / 2,
        "center": center,
        "correlation": correlation,
    }


def test_centres_where_they_are_expected_are_no_fault():
    assert time_faults(3 * [exposure(41.0)], has_table=False) == []
    assert time_faults(3 * [exposure(None)], has_table=False) == []
    assert time_faults([], has_table=False) == []


def test_centres_elsewhere_are_a_fault():
    (fault,) = time_faults(3 * [exposure(60.0)], has_table=False)
    assert "lie at step 60.0 of 88, expected 40.0 +- 3 (median of 3 frames)" in fault


@pytest.mark.parametrize(
    ("exposures", "is_fault"),
    [
        ([exposure(80.0, 0.73)], True),
        ([exposure(80.0, 0.73), exposure(None)], False),
        ([exposure(80.0, 0.81), exposure(None)], True),
        ([exposure(80.0, 0.73), exposure(80.0, 0.73), exposure(None)], True),
    ],
)
def test_one_unreliable_centre_tells_nothing_of_a_sequence_without_others(exposures, is_fault):
    assert bool(time_faults(exposures, has_table=False)) == is_fault


def test_a_file_of_another_length_whose_sharp_frame_lies_elsewhere_is_cut():
    others = 3 * [exposure(40.0)]
    (fault,) = time_faults([*others, exposure(20.0, steps=64)], has_table=False)
    assert "holds 64 steps, others 88" in fault
    assert time_faults([*others, exposure(28.0, steps=64)], has_table=False) == []
    assert time_faults([*others, exposure(20.0, steps=64)], has_table=True) == []
