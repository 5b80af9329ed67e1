"""Ratio of step times in paired turns, with its confidence interval."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from vrtspike.analysis.step_times import SETTINGS_NAMES, ratio_of_times, times_text


def turn(*step_s: float, samples: float = 1.0, mb: float = 100.0) -> pd.DataFrame:
    return pd.DataFrame({"s": step_s, "samples": samples, "memory": mb, "on_gpu": False})


def join_turns(before: list[pd.DataFrame], after: list[pd.DataFrame]) -> pd.DataFrame:
    tables = []
    for name, turns in zip(SETTINGS_NAMES, (before, after), strict=True):
        for number, table in enumerate(turns):
            tables.append(table.assign(setting=name, turn=number))
    return pd.concat(tables)


FAST = [turn(1.0, 1.0, 1.0), turn(1.0, 1.0, 1.0)]
SLOW = [turn(2.0, 2.0, 4.0, mb=110.4), turn(1.98, 2.0, 2.2, mb=120.6)]
QUIET = [turn(1.0), turn(1.01), turn(1.0)]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (
            SLOW,
            FAST,
            [
                "             s a step middle half     memory",
                "as it is            2   2 to 2.15     121 MB",
                "changed             1      1 to 1     100 MB",
                "",
                "ratio of step times: 2.000 (95%: 2.000 to 2.000); changed is 2.00 x as fast",
            ],
        ),
        (
            FAST,
            SLOW,
            ["(95%: 0.500 to 0.500); changed is slower: 2.00 x the time"],
        ),
        (QUIET, [turn(1.0)] * 3, ["; no difference seen"]),
        ([turn(1.0), turn(1.2)], [turn(1.1)] * 2, ["; more --turns would narrow it"]),
        # A step takes 1.5 times as long and holds twice the samples.
        (
            [turn(1.0)] * 2,
            [turn(1.5, samples=2.0)] * 2,
            [
                "samples of a step: 1 as it is, 2 changed",
                "ratio of step times: 0.667 (95%: 0.667 to 0.667)",
                "ratio of times per sample: 1.333 (95%: 1.333 to 1.333); changed is 1.33 x as fast",
            ],
        ),
        # A step of twice the samples that takes twice as long is no difference.
        (QUIET, [turn(s, samples=2.0) for s in (2.0, 2.0, 2.02)], ["; no difference seen"]),
    ],
)
def test_times_are_compared_by_the_sample(before, after, lines):
    assert times_text(join_turns(before, after)).endswith("\n".join(lines) + "\n")


def test_the_ratio_of_two_pairs_is_their_geometric_mean_with_a_t_interval():
    # Medians 4 and 3 against 2 and 2: ratios 2 and 1.5, whose geometric mean is the root of 3.
    before = [turn(4.0, 90.0, 1.0), turn(3.0)]
    after = [turn(2.0), turn(2.0, 2.0, 50.0)]
    value, low, high = ratio_of_times(join_turns(before, after))
    assert value == pytest.approx(math.sqrt(3))
    # Of two values the standard error of the mean is half their distance; t of one degree of
    # freedom is that of Cauchy, tan(0.475 pi).
    half = math.tan(0.475 * math.pi) * math.log(2 / 1.5) / 2
    assert math.log(high / value) == pytest.approx(half)
    assert math.log(value / low) == pytest.approx(half)
