"""Confidence intervals of means over sequences, by a printed table of t and by simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vrtspike.analysis.intervals import interval_of_mean
from vrtspike.evaluation.means import mean_and_error


def sample(count: int) -> np.ndarray:
    return np.random.default_rng(3).gamma(2.0, 2.0, count)


def test_ends_are_those_of_a_printed_table_of_t():
    # Five values of mean 3, variance 2.5: standard error sqrt(2.5 / 5); t of 4 degrees is 2.776.
    half = 2.7764 * 0.5**0.5
    assert interval_of_mean([1, 2, 3, 4, 5], [1] * 5) == pytest.approx(
        (3 - half, 3 + half), abs=1e-4
    )


@pytest.mark.parametrize("count", [5, 8, 11])
def test_intervals_of_few_sequences_contain_the_true_mean_in_95_percent_of_cases(count):
    random = np.random.default_rng(7)
    cases = 4000
    hits = 0
    for _ in range(cases):
        low, high = interval_of_mean(random.normal(1.5, 0.7, count), np.ones(count))
        hits += low < 1.5 < high
    assert hits / cases == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize(("weighted_by", "largest"), [("sequences", 1), ("frames", 9)])
def test_half_the_width_is_t_times_the_standard_error_of_the_tables(weighted_by, largest):
    values = sample(12)
    frames = np.linspace(1, largest, 12)
    mean, error = mean_and_error(pd.Series(values), pd.Series(frames), weighted_by)
    expected = (mean - 2.20099 * error, mean + 2.20099 * error)  # t of 11 degrees of freedom
    assert interval_of_mean(values, frames) == pytest.approx(expected, rel=1e-5)


def test_many_sequences_have_the_interval_of_the_normal_law():
    values = sample(1000)
    half = 1.96 * values.std() / np.sqrt(1000)
    expected = [values.mean() - half, values.mean() + half]
    assert interval_of_mean(values, np.ones(1000)) == pytest.approx(expected, rel=0.01)


def test_few_sequences_have_none():
    assert interval_of_mean(sample(4), np.ones(4)) is None
    assert interval_of_mean(sample(5), np.ones(5)) is not None
