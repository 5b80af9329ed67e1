"""Which years train, which validate and which test: whole years, never drawn at random.

Neighbouring months are alike, so months drawn at random would let a model look its examination up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vrtspike.errors import ConfigError, DataError
from vrtspike.sst.months import MONTHS, month_name, month_number

Span = tuple[int, int]
"""First and last year, both within."""

SPLITS = ("train", "val", "test")
_HELD_OUT = 0.1
"""Share of the years for each of validation and test, where nobody says which."""


@dataclass(frozen=True)
class Years:
    """The years of each split.

    Attributes:
        train: what the model, climatology and standard deviations learn from.
        val: what decides which weights are best.
        test: what the figures are of.

    Raises:
        ConfigError: if a span runs backwards, or two have a year in common.
    """

    train: Span
    val: Span
    test: Span

    def __post_init__(self) -> None:
        """Check the spans and keep them as pairs."""
        for name in SPLITS:
            object.__setattr__(self, name, _span(name, getattr(self, name)))
        for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
            first, second = getattr(self, one), getattr(self, other)
            common = range(max(first[0], second[0]), min(first[1], second[1]) + 1)
            if common:
                raise ConfigError(
                    f"years: {one} {list(first)} and {other} {list(second)} overlap in "
                    f"{', '.join(map(str, common))}; give each year to one split, or figures of "
                    "the test would be of what was learned by heart"
                )

    def span(self, split: str) -> Span:
        """The years of a split.

        Raises:
            ConfigError: if there is no such split.
        """
        if split not in SPLITS:
            raise ConfigError(f"split: found {split!r}, expected one of {', '.join(SPLITS)}")
        found: Span = getattr(self, split)
        return found

    def months(self, split: str) -> range:
        """The numbers of the months of a split.

        >>> len(Years((1980, 1989), (1990, 1990), (1991, 1992)).months("test"))
        24
        """
        first, last = self.span(split)
        return range(month_number(first, 1), month_number(last, 12) + 1)

    def require_within(self, months: Sequence[int], name: str) -> None:
        """See that data hold all these years.

        Args:
            months: numbers of the months that there are, without gaps.
            name: of the data, for messages.

        Raises:
            DataError: naming the split and what there is.
        """
        for split in SPLITS:
            wanted = self.months(split)
            if wanted[0] < months[0] or wanted[-1] > months[-1]:
                raise DataError(
                    f"{name} reaches from {month_name(months[0])} to {month_name(months[-1])}, but "
                    f"the years of {split} are {list(self.span(split))}, all of whose months are "
                    "needed; download the missing ones or choose other years"
                )

    def as_json(self) -> dict[str, list[int]]:
        """The years as JSON values."""
        return {name: list(self.span(name)) for name in SPLITS}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Years:
        """The inverse of :meth:`as_json`.

        Raises:
            ConfigError: if a split is missing or unknown.
        """
        if not isinstance(values, Mapping) or set(values) != set(SPLITS):
            raise ConfigError(
                f"years: found {values!r}, expected the first and last year of each of "
                f"{', '.join(SPLITS)}, such as {{'train': [1979, 2014], 'val': [2015, 2018], "
                "'test': [2019, 2023]}"
            )
        return cls(**{name: values[name] for name in SPLITS})


def default_years(months: Sequence[int], name: str) -> Years:
    """A division of all whole years: the last tenth tests, the tenth before it validates.

    Args:
        months: numbers of the months that there are, without gaps.
        name: of the data, for messages.

    Raises:
        DataError: if there are fewer than four whole years (climatology needs two).

    >>> default_years(range(month_number(1980, 3), month_number(2011, 1)), "a.nc")
    Years(train=(1981, 2004), val=(2005, 2007), test=(2008, 2010))
    """
    first, last = -(-months[0] // MONTHS), (months[-1] + 1) // MONTHS - 1
    count = last - first + 1
    if count < 4:
        raise DataError(
            f"{name} reaches from {month_name(months[0])} to {month_name(months[-1])}: "
            f"{max(0, count)} whole years, expected four or more, to learn from, to validate and "
            "to test; download more years"
        )
    held = max(1, round(_HELD_OUT * count))
    return Years(
        (first, last - 2 * held), (last - 2 * held + 1, last - held), (last - held + 1, last)
    )


def _span(name: str, value: Any) -> Span:  # noqa: ANN401 - what a user gave
    try:
        first, last = value
    except (TypeError, ValueError):
        first = last = None
    if type(first) is not int or type(last) is not int or first > last:
        raise ConfigError(
            f"years: {name} is {value!r}, expected the first and the last year, such as "
            "[1979, 2014]"
        )
    return first, last
