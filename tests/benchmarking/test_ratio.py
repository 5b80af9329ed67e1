from __future__ import annotations

import math

import numpy as np
import pytest

from vrtspike.benchmarking.ratio import Quartiles, Ratio, quartiles, ratio_of_times


def test_quartiles_by_hand():
    assert quartiles([8.0, 0.0, 4.0, 2.0]) == Quartiles(1.5, 3.0, 5.0)


def test_two_pairs_by_hand():
    # Medians 4 and 3 against 2 and 2: ratios 2 and 1.5, whose geometric mean is the root of 3.
    found = ratio_of_times([[4.0, 90.0, 1.0], [3.0]], [[2.0], [2.0, 2.0, 50.0]])
    assert found.value == pytest.approx(math.sqrt(3))
    # Of two values the standard error of the mean is half their distance; t of one degree of
    # freedom is that of Cauchy, tan(0.475 pi).
    half = math.tan(0.475 * math.pi) * math.log(2 / 1.5) / 2
    assert math.log(found.high / found.value) == pytest.approx(half)
    assert math.log(found.value / found.low) == pytest.approx(half)
    assert not found.is_seen


def test_five_pairs_against_the_table_of_student():
    logs = np.array([0.10, 0.12, 0.08, 0.11, 0.09])
    found = ratio_of_times([[math.exp(x)] for x in logs], [[1.0]] * 5)
    half = 2.776 * np.sqrt(sum((logs - 0.1) ** 2) / 4 / 5)
    assert found.value == pytest.approx(math.exp(0.1))
    assert found.low == pytest.approx(math.exp(0.1 - half), abs=1e-5)
    assert found.high == pytest.approx(math.exp(0.1 + half), abs=1e-5)
    assert found.is_seen


def test_the_first_setting_is_the_dividend():
    slow, fast = [[2.0], [2.2], [2.1]], [[1.0], [1.1], [1.05]]
    assert ratio_of_times(slow, fast).value == pytest.approx(2.0)
    assert ratio_of_times(fast, slow).value == pytest.approx(0.5)


def test_turns_that_differ_are_no_difference_of_settings():
    generator = np.random.default_rng(5)

    def turns() -> np.ndarray:
        """Five of ten steps: 2 % from turn to turn, 5 % from step to step."""
        return np.exp(generator.normal(0, 0.02, (5, 1)) + generator.normal(0, 0.05, (5, 10)))

    seen = sum(ratio_of_times(turns(), turns()).is_seen for _ in range(1000))
    # 50 are expected, with a standard deviation of 7.
    assert 25 < seen < 75
    # A tenth is found nearly always.
    assert sum(ratio_of_times(1.1 * turns(), turns()).is_seen for _ in range(200)) > 180


def test_scaled_by_what_was_done():
    assert Ratio(0.5, 0.4, 0.6).scaled(2) == Ratio(1.0, 0.8, 1.2)


def test_a_difference_is_seen_on_both_sides():
    assert Ratio(1.2, 1.1, 1.3).is_seen
    assert Ratio(0.8, 0.7, 0.9).is_seen
    assert not Ratio(1.01, 0.95, 1.07).is_seen


def test_one_pair_says_nothing():
    with pytest.raises(ValueError, match="found 1 pairs of turns, expected 2"):
        ratio_of_times([[1.0]], [[1.0]])
    with pytest.raises(ValueError, match="shorter"):
        ratio_of_times([[1.0], [1.0]], [[1.0]])
