from __future__ import annotations

import pytest

from vrtspike.errors import ConfigError, DataError
from vrtspike.sst.settings import Years, default_years, month_name, month_number

YEARS = Years(TRAIN=(1980, 1981), VAL=(1982, 1982), TEST=(1990, 1991))


def ends(first: tuple[int, int], last: tuple[int, int]) -> tuple[int, int]:
    return month_number(*first), month_number(*last)


def test_a_split_is_its_whole_years():
    first, last = ends((1980, 1), (1981, 12))
    assert YEARS.months("train") == range(first, last + 1)
    assert len(YEARS.months("test")) == 24
    with pytest.raises(ConfigError, match=r"'valid'.*train, val, test"):
        YEARS.months("valid")
    assert month_name(month_number(850, 12)) == "0850-12"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": [1980, 1985]}, r"TRAIN=\(1980, 1985\).*expected .* each year in one split"),
        ({"test": [1981, 1981]}, "each year in one split"),
        ({"val": [1990, 1990]}, "each year in one split"),
        ({"train": [1981, 1980]}, r"TRAIN=\(1981, 1980\).*, expected the first year first"),
        ({"train": 1980}, "years: TRAIN: expected a list|years: TRAIN: found 1980"),
        ({"val": [1982]}, "years: VAL"),
        ({"more": [1, 2]}, "years: unknown key MORE"),
        ({"train": None}, "such as {'train'"),
    ],
)
def test_years_that_make_no_sense_are_refused(changes, words):
    given = {"train": [1980, 1981], "val": [1982, 1982], "test": [1990, 1991]}
    assert Years.of(given) == YEARS
    with pytest.raises(ConfigError, match=words):
        Years.of(given | changes)


def test_without_a_choice_the_last_years_are_held_out():
    assert default_years(*ends((1980, 1), (1989, 12)), "a") == Years(
        TRAIN=(1980, 1987), VAL=(1988, 1988), TEST=(1989, 1989)
    )
    # Years that are not whole belong to no split.
    assert default_years(*ends((1979, 12), (1984, 11)), "a") == Years(
        TRAIN=(1980, 1981), VAL=(1982, 1982), TEST=(1983, 1983)
    )
    with pytest.raises(DataError, match="3 whole years, expected four"):
        default_years(*ends((1980, 1), (1983, 11)), "a")
    with pytest.raises(DataError, match="0 whole years"):
        default_years(*ends((1980, 2), (1980, 3)), "a")
