"""Numbers of months.

A month's number is 12 times the year, plus 0 for January, whatever the calendar of a file.
"""

from __future__ import annotations

MONTHS = 12


def month_number(year: int, month: int) -> int:
    """Return the number of a calendar month (1 to 12).

    >>> month_number(2000, 1) - month_number(1999, 12)
    1
    """
    return MONTHS * year + month - 1


def month_name(number: int) -> str:
    """Format a month as text: year and month.

    >>> month_name(month_number(2003, 3))
    '2003-03'
    """
    return f"{number // MONTHS:04d}-{number % MONTHS + 1:02d}"
