"""Spikes packed into bits."""

from __future__ import annotations

import numpy as np

from vrtspike.data.raw.packed import PackedSpikes


def test_packed_spikes_are_unpacked_step_by_step():
    spikes = np.random.default_rng(4).integers(0, 2, (5, 9, 13), dtype=np.uint8)
    packed = PackedSpikes.pack(spikes)
    assert (packed.shape, len(packed)) == (spikes.shape, 5)
    np.testing.assert_array_equal(packed.count_image(), spikes.sum(axis=0))
    for step in range(5):
        np.testing.assert_array_equal(packed[step], spikes[step])
