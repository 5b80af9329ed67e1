"""Spike arrays of other types; the doctest counts spikes."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.data.voxels.counting import voxelize
from vrtspike.system.errors import DataError


def test_arrays_that_are_no_spikes_are_refused():
    spikes = np.ones((16, 2, 8), np.uint8)
    np.testing.assert_array_equal(voxelize(spikes.astype(bool), 4, 4), voxelize(spikes, 4, 4))
    for other in (spikes[0], spikes * 0.5, spikes * 2):
        with pytest.raises(
            DataError, match=r"spikes: found .* expected uint8 \(T, H, W\) of 0 and 1"
        ):
            voxelize(other, 4, 4)
