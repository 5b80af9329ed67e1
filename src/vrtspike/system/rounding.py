"""Division of integers that rounds up."""

from __future__ import annotations


def ceil_div(number: int, divisor: int) -> int:
    """Return a quotient, rounded up.

    Integers of a traced network may be symbols, so only integer arithmetic is used.

    Args:
        number: the number to divide.
        divisor: above 0.

    >>> ceil_div(17, 8)
    3
    """
    return (number + divisor - 1) // divisor


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below a number.

    Args:
        number: the number to round.
        multiple: the number of which the result is a multiple; above 0.

    >>> round_up(17, 8)
    24
    """
    return ceil_div(number, multiple) * multiple
