"""Comparison of the step times of two settings: their ratio, with a confidence interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

SETTINGS_NAMES = ("as it is", "changed")
"""Names of the two settings."""
CONFIDENCE = 0.95
"""Confidence of the interval around a ratio."""
WIDE_INTERVAL = 1.5
"""Ratio between the ends of an interval above which more turns are recommended."""


def ratio_of_times(times: pd.DataFrame) -> tuple[float, float, float]:
    """Compute the ratio of the step times of two settings and its confidence interval.

    Steps of one turn are correlated (memory layout, load of the machine), so that a turn is one
    observation, its median, and successive turns are a pair. The interval is Student's, for the
    mean of the logarithms of the pairs' ratios. For equal settings whose turns differ by 2 %, it
    excludes 1 in 5 % of cases. The interval of a bootstrap over steps does so in 25 %, that of a
    bootstrap over five turns in 14 %.

    Args:
        times: a row for each step: ``setting`` of :data:`SETTINGS_NAMES`, ``turn`` and ``s``.

    Returns:
        the ratio, and the lower and the upper end of its interval.
    """
    medians = times.pivot_table("s", "turn", "setting", aggfunc="median")
    logs = np.log(medians[SETTINGS_NAMES[0]] / medians[SETTINGS_NAMES[1]])
    interval = stats.ttest_1samp(logs, 0.0).confidence_interval(CONFIDENCE)
    value, low, high = np.exp([logs.mean(), interval.low, interval.high]).tolist()
    return value, low, high


def times_text(times: pd.DataFrame) -> str:
    """Format times, memory and ratio of two settings; the text ends with a newline.

    Args:
        times: a row for each step of all turns, with ``setting`` and ``turn``.
    """
    settings = times.groupby("setting")
    low, median, high = (
        settings["s"].quantile(share).map("{:.4g}".format) for share in (0.25, 0.5, 0.75)
    )
    peak = settings["memory"].max().map("{:.0f} MB".format)
    memory = "GPU memory" if times["on_gpu"].iloc[0] else "memory"
    columns = {"s a step": median, "middle half": low + " to " + high, memory: peak}
    table = pd.DataFrame(columns).rename_axis(None).to_string(col_space=10)
    samples = settings["samples"].mean()
    before = samples[SETTINGS_NAMES[0]]
    after = samples[SETTINGS_NAMES[1]]
    ratio = ratio_of_times(times)
    lines = [table, ""]
    if before != after:
        lines.append(f"samples of a step: {before:g} as it is, {after:g} changed")
    lines.append(_ratio_line("ratio of step times", ratio))
    per_sample = [value * after / before for value in ratio]
    if before != after:
        lines.append(_ratio_line("ratio of times per sample", per_sample))
    return "\n".join(lines) + f"; {_meaning(per_sample)}\n"


def _ratio_line(name: str, ratio: Sequence[float]) -> str:
    """Return a ratio with the ends of its interval."""
    value, low, high = ratio
    return f"{name}: {value:.3f} ({CONFIDENCE:.0%}: {low:.3f} to {high:.3f})"


def _meaning(ratio: Sequence[float]) -> str:
    """Interpret the ratio of times per sample, with the ends of its interval."""
    value, low, high = ratio
    if low <= 1 <= high:
        more = "; more --turns would narrow it" if high > WIDE_INTERVAL * low else ""
        return f"no difference seen{more}"
    if value > 1:
        return f"changed is {value:.2f} x as fast"
    return f"changed is slower: {1 / value:.2f} x the time"
