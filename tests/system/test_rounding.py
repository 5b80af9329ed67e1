"""Quotients and multiples, rounded up."""

from __future__ import annotations

import pytest

from vrtspike.system.rounding import ceil_div, round_up


@pytest.mark.parametrize(
    ("number", "multiple", "rounded"),
    [(0, 8, 0), (1, 8, 8), (7, 8, 8), (8, 8, 8), (9, 8, 16), (5, 1, 5), (10, 3, 12)],
)
def test_the_smallest_multiple_that_is_not_below_the_number(number, multiple, rounded):
    assert round_up(number, multiple) == rounded


@pytest.mark.parametrize(
    ("number", "divisor", "quotient"),
    [(0, 8, 0), (1, 8, 1), (8, 8, 1), (9, 8, 2), (5, 1, 5), (-7, 8, 0), (-8, 8, -1)],
)
def test_the_smallest_integer_that_is_not_below_the_quotient(number, divisor, quotient):
    assert ceil_div(number, divisor) == quotient


def test_large_numbers_are_exact():
    """A float has 53 bits."""
    assert ceil_div(2**60 + 1, 2**10) == 2**50 + 1
    assert round_up(2**60 + 1, 2**10) == 2**60 + 2**10
