"""Integers rounded to multiples."""

from __future__ import annotations


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below a number.

    Integers of a traced network may be symbols, so only integer arithmetic is used.

    Args:
        number: the number to round.
        multiple: the number of which the result is a multiple; above 0.

    >>> round_up(17, 8)
    24
    """
    return (number + multiple - 1) // multiple * multiple
