"""How the times of two settings compare: medians of turns, their ratio, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

CONFIDENCE = 0.95
"""Of the interval around a ratio."""


@dataclass(frozen=True)
class Quartiles:
    """The middle half of some values.

    Attributes:
        low: first quartile.
        median: second.
        high: third.
    """

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """A ratio of times and its confidence interval; above 1 the second setting is faster.

    Attributes:
        value: geometric mean over the pairs of turns.
        low: lower end of the interval.
        high: upper end.
    """

    value: float
    low: float
    high: float

    @property
    def is_seen(self) -> bool:
        """Whether the interval leaves 1 out, so that the times differ by more than chance."""
        return not self.low <= 1.0 <= self.high

    def scaled(self, factor: float) -> Ratio:
        """The ratio of the times divided by what was done in them.

        Args:
            factor: how much more the second setting does in its time.
        """
        return Ratio(self.value * factor, self.low * factor, self.high * factor)


def quartiles(values: Sequence[float]) -> Quartiles:
    """Quartiles, linear between neighbouring values.

    >>> quartiles([4.0, 1.0, 3.0, 2.0, 5.0])
    Quartiles(low=2.0, median=3.0, high=4.0)
    """
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return Quartiles(low, median, high)


def ratio_of_times(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> Ratio:
    """By how much the steps of one setting take longer than those of another.

    Steps of one turn are alike: the same memory layout, the same neighbours on the machine. So a
    turn is one observation, its median, and turns beside each other are a pair. The interval is
    Student's for the mean of the logarithms of the pairs' ratios. A bootstrap over steps calls one
    of four equal settings different as soon as turns differ by 2 %, one over five turns one of
    seven; this one keeps to its 5 %.

    Args:
        before: step times of each turn of the first setting, in any unit.
        after: those of the second, as many turns, in the same order.

    Raises:
        ValueError: if there are fewer than two pairs, or the numbers of turns differ.
    """
    if len(before) < 2:
        raise ValueError(f"found {len(before)} pairs of turns, expected 2 or more")
    logs = np.array(
        [math.log(np.median(a) / np.median(b)) for a, b in zip(before, after, strict=True)]
    )
    middle = float(logs.mean())
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    half = error * float(special.stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2))
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half))
