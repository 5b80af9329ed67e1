"""Experiments on learning from spikes."""

from __future__ import annotations

import numpy as np

import learning


def test_features_follow_their_definitions() -> None:
    spikes = np.zeros((56, 1, 2), np.uint8)
    # The sharp frame of 7 source frames is at step 24.
    spikes[[20, 23, 26, 40], 0, 0] = 1
    rates = learning.rates(lambda steps: np.array([0, 22, 24, steps]))(spikes)
    np.testing.assert_allclose(rates[:, 0, 0], [1 / 22, 1 / 2, 2 / 32])
    # From step 23 to step 26; without a spike on one side up to the end of the exposure.
    np.testing.assert_allclose(learning.interval(spikes)[0, 0], [1 / 3, 1 / 57])
    np.testing.assert_allclose(learning.short_windows(spikes)[:, 0, 0], [1 / 4, 3 / 8, 3 / 16])
