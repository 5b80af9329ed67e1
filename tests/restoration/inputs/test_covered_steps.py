"""Steps of a recording that the input of a model covers."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.data.exposure import Exposure
from vrtspike.restoration.inputs.covered_steps import CoveredSteps


@pytest.mark.parametrize("count", [0, 1, 5])
def test_overlaps_are_those_of_a_search_through_all_exposures(count):
    random = np.random.default_rng(count)
    for _ in range(20):
        starts = random.integers(0, 30, count)
        lengths = random.integers(1, 9, count)
        exposures = [Exposure(int(a), int(a + n), a) for a, n in zip(starts, lengths, strict=True)]
        covered = CoveredSteps(exposures)
        for start in range(-2, 40):
            for stop in range(start + 1, start + 6):
                expected = any(e.start < stop and start < e.stop for e in exposures)
                assert covered.overlaps(start, stop) == expected, (exposures, start, stop)
