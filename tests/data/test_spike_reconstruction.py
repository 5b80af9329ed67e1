"""Images from spikes alone: intervals and short windows."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.data.spike_reconstruction import tfi, tfp


@pytest.fixture(scope="module")
def spikes() -> np.ndarray:
    """Pixels of very different rates, some without a spike."""
    rng = np.random.default_rng(0)
    rates = np.array([[0.0, 0.02, 0.05, 0.1], [0.2, 0.4, 0.7, 1.0]])
    return (rng.random((40, 2, 4)) < rates).astype(np.uint8)


@pytest.mark.parametrize("step", [0, 1, 7, 16, 20, 33, 39, 40])
def test_the_interval_is_that_between_the_last_spike_before_and_the_first_after(spikes, step):
    result = tfi(spikes, step)
    assert result.shape == (2, 4)
    assert result.dtype == np.float32
    for row in range(2):
        for column in range(4):
            times = np.flatnonzero(spikes[:, row, column])
            earlier, later = times[times < step], times[times >= step]
            expected = len(times) / 40
            if len(earlier) and len(later):
                expected = 1 / (later[0] - earlier[-1])
            assert result[row, column] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "first", "last"),
    [
        (20, 16, 24),
        # Near an end both halves are shorter; at an end the whole recording is the window.
        *((3, 0, 6), (38, 36, 40), (0, 0, 40), (40, 0, 40)),
    ],
)
def test_the_short_window_lies_about_the_instant(spikes, step, first, last):
    expected = spikes[first:last].mean(axis=0)
    np.testing.assert_allclose(tfp(spikes, step, window=8), expected, rtol=1e-6)


@pytest.mark.parametrize("period", [1, 2, 4, 8])
def test_both_give_the_rate_of_a_pixel_that_fires_regularly(period):
    spikes = np.zeros((64, 1, 1), np.uint8)
    spikes[::period] = 1
    for step in range(20, 30):
        assert tfi(spikes, step) == pytest.approx(1 / period)
        assert tfp(spikes, step, window=16) == pytest.approx(1 / period)
