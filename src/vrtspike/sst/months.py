"""Months as whole numbers, so that they can be counted: 12 times the year, plus 0 for January."""

from __future__ import annotations

MONTHS = 12


def month_number(year: int, month: int) -> int:
    """The number of a month of the calendar (1 to 12).

    >>> month_number(2000, 1) - month_number(1999, 12)
    1
    """
    return MONTHS * year + month - 1


def calendar_month(number: int) -> int:
    """The month of the year, from 0 for January.

    >>> calendar_month(month_number(2003, 3))
    2
    """
    return number % MONTHS


def month_name(number: int) -> str:
    """A month as people write it.

    >>> month_name(month_number(2003, 3))
    '2003-03'
    """
    return f"{number // MONTHS:04d}-{number % MONTHS + 1:02d}"
