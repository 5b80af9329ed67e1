"""Years of the splits: overlaps, defaults and missing years."""

from __future__ import annotations

import pytest

from vrtspike.sst.months import month_name, month_number
from vrtspike.sst.settings import Years, years_within
from vrtspike.system.errors import DataError

YEARS = Years(TRAIN=(1980, 1981), VAL=(1982, 1982), TEST=(1990, 1991))


def ends(first: tuple[int, int], last: tuple[int, int]) -> tuple[int, int]:
    return month_number(*first), month_number(*last)


def test_a_split_is_its_whole_years():
    first, last = ends((1980, 1), (1981, 12))
    assert YEARS.months("train") == range(first, last + 1)
    assert len(YEARS.months("test")) == 24
    assert month_name(month_number(850, 12)) == "0850-12"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"TRAIN": [1980, 1985]}, r"TRAIN=\(1980, 1985\).*expected .* each year in one split"),
        ({"TEST": [1981, 1981]}, "each year in one split"),
        ({"VAL": [1990, 1990]}, "each year in one split"),
        ({"TRAIN": [1981, 1980]}, r"TRAIN=\(1981, 1980\).*, expected the first year first"),
    ],
)
def test_invalid_years_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        Years(**YEARS.model_dump() | changes)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ((1980, 1), (1989, 12), "TRAIN=(1980, 1987) VAL=(1988, 1988) TEST=(1989, 1989)"),
        # Years that are not whole belong to no split.
        ((1979, 12), (1984, 11), "TRAIN=(1980, 1981) VAL=(1982, 1982) TEST=(1983, 1983)"),
        ((1980, 1), (1983, 11), "a has 3 whole years from 1980 to 1982, expected four"),
        ((1980, 2), (1980, 3), "0 whole years"),
    ],
)
def test_without_a_choice_the_last_years_are_held_out(first, last, expected):
    try:
        result = str(years_within(None, *ends(first, last), "a"))
    except DataError as error:
        result = str(error)
    assert expected in result


def test_missing_years_are_refused():
    assert years_within(YEARS, *ends((1980, 1), (1991, 12)), "a") == YEARS
    for first, last in (((1980, 2), (1991, 12)), ((1980, 1), (1991, 11))):
        with pytest.raises(DataError, match=r"a has 11 whole years .* TEST=\(1990, 1991\)"):
            years_within(YEARS, *ends(first, last), "a")
