from __future__ import annotations

import pytest

from vrtspike.errors import ConfigError, DataError
from vrtspike.sst.months import month_number
from vrtspike.sst.years import Years, default_years


def months(first: tuple[int, int], last: tuple[int, int]) -> range:
    return range(month_number(*first), month_number(*last) + 1)


def test_a_split_is_its_whole_years():
    years = Years((1980, 1981), (1982, 1982), (1990, 1991))
    assert years.months("train") == months((1980, 1), (1981, 12))
    assert years.months("test") == months((1990, 1), (1991, 12))
    assert years.span("val") == (1982, 1982)


@pytest.mark.parametrize(
    ("train", "val", "test", "words"),
    [
        ((1980, 1985), (1985, 1986), (1987, 1988), "train .* and val .* overlap in 1985"),
        ((1980, 1985), (1986, 1987), (1983, 1983), "train .* and test .* overlap in 1983"),
        ((1990, 1995), (1980, 1984), (1982, 1983), "val .* and test .* overlap in 1982, 1983"),
        ((1985, 1980), (1986, 1987), (1988, 1989), "train is .*1985, 1980"),
        ((1980.0, 1985), (1986, 1987), (1988, 1989), "train is"),
        (1980, (1986, 1987), (1988, 1989), "train is 1980, expected the first and the last"),
        ((1980, 1985), (1986,), (1988, 1989), "val is"),
    ],
)
def test_years_that_make_no_sense_are_refused(train, val, test, words):
    with pytest.raises(ConfigError, match=words):
        Years(train, val, test)


def test_an_unknown_split_is_refused():
    with pytest.raises(ConfigError, match=r"'valid'.*train, val, test"):
        Years((1980, 1981), (1982, 1982), (1983, 1983)).months("valid")


def test_years_come_back_from_json():
    years = Years((1980, 1981), (1982, 1982), (1983, 1983))
    assert Years.from_json(years.as_json()) == years
    for wrong in ({"train": [1980, 1981]}, {**years.as_json(), "more": [1, 2]}, None, [1]):
        with pytest.raises(ConfigError, match="train, val, test"):
            Years.from_json(wrong)


def test_data_must_hold_all_months_of_the_years():
    years = Years((1980, 1981), (1982, 1982), (1983, 1983))
    years.require_within(months((1980, 1), (1983, 12)), "data")
    with pytest.raises(DataError, match=r"data reaches from 1980-02.*train are \[1980, 1981\]"):
        years.require_within(months((1980, 2), (1983, 12)), "data")
    with pytest.raises(DataError, match=r"to 1983-11.*test are \[1983, 1983\]"):
        years.require_within(months((1980, 1), (1983, 11)), "data")


def test_without_a_choice_the_last_years_are_held_out():
    assert default_years(months((1980, 1), (1989, 12)), "a") == Years(
        (1980, 1987), (1988, 1988), (1989, 1989)
    )
    # Years that are not whole belong to no split.
    assert default_years(months((1979, 12), (1984, 11)), "a") == Years(
        (1980, 1981), (1982, 1982), (1983, 1983)
    )
    with pytest.raises(DataError, match="3 whole years, expected four"):
        default_years(months((1980, 1), (1983, 11)), "a")
    with pytest.raises(DataError, match="0 whole years"):
        default_years(months((1980, 2), (1980, 3)), "a")
