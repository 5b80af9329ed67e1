"""Confidence intervals of means over sequences, beside resampling by hand and the normal law."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.analysis.intervals import interval_of_mean


def sample(count: int) -> np.ndarray:
    return np.random.default_rng(3).gamma(2.0, 2.0, count)


def quantiles_by_hand(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The 2.5 and 97.5 % quantiles of the weighted means of resampled sequences."""
    random = np.random.default_rng(5)
    means = []
    for _ in range(40_000):
        chosen = random.integers(len(values), size=len(values))
        means.append(np.average(values[chosen], weights=weights[chosen]))
    return np.quantile(means, [0.025, 0.975])


@pytest.mark.parametrize("largest_weight", [1, 9])
def test_ends_are_quantiles_of_resampled_means(largest_weight):
    values = sample(12)
    weights = np.linspace(1, largest_weight, 12)
    low, high = interval_of_mean(values, weights)
    assert [low, high] == pytest.approx(quantiles_by_hand(values, weights), rel=0.02)
    assert low < np.average(values, weights=weights) < high


def test_many_sequences_have_the_interval_of_the_normal_law():
    values = sample(1000)
    half = 1.96 * values.std() / np.sqrt(1000)
    expected = [values.mean() - half, values.mean() + half]
    assert interval_of_mean(values, np.ones(1000)) == pytest.approx(expected, rel=0.01)


def test_equal_calls_give_equal_ends():
    assert interval_of_mean(sample(9), np.ones(9)) == interval_of_mean(sample(9), np.ones(9))


def test_few_sequences_have_none():
    assert interval_of_mean(sample(4), np.ones(4)) is None
    assert interval_of_mean(sample(5), np.ones(5)) is not None
