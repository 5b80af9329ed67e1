"""Scores with intervals, and a verdict on the model against the best baseline.

Intervals are Student's t, with the standard error of a moving block bootstrap: blocks of
consecutive start months are drawn, as neighbouring forecasts are not independent (Künsch, 1989).

The verdicts at all leads are a family of tests: if no lead has a difference, one of several still
has a p below 0.05 in more than one case of twenty. Verdicts therefore follow p values adjusted by
Holm's method (1979). This keeps the probability of any false verdict below 0.05, however the leads
depend on each other. The method of Benjamini and Hochberg limits the share of false verdicts
instead, which helps with many tests; here they are few, and each verdict is read by itself.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray
from scipy import stats

from vrtspike.sst.baselines import BASELINES
from vrtspike.sst.scores import BEST_POSSIBLE, MODEL, skill
from vrtspike.system.rounding import ceil_div

BLOCK = 12
"""Number of start months of a block; a quarter of them where there are fewer than four blocks."""
MIN_SAMPLES = 12
"""Number of start months below which :func:`compare_with_baselines` gives no intervals and no
verdicts."""
RESAMPLES = 1000
LEVEL = 0.95
"""Confidence level of intervals; verdicts are at the significance 1 - LEVEL."""
_CORRELATIONS = ("acc", "nino34")
"""Prefixes of the names of scores that are correlations."""


def block_length(samples: int) -> int:
    """Return the number of start months of a block: :data:`BLOCK`, or a quarter of all."""
    if samples >= 4 * BLOCK:
        return BLOCK
    return max(1, samples // 4)


def bootstrap_indices(samples: int, resamples: int = RESAMPLES) -> xarray.DataArray:
    """Choose places (resample, sample) of a moving block bootstrap, the same at every call.

    Args:
        samples: number of consecutive samples.
        resamples: number of resamples.
    """
    block = block_length(samples)
    count = ceil_div(samples, block)
    starts = np.random.default_rng(0).integers(0, samples - block + 1, (resamples, count))
    indices = (starts[..., None] + np.arange(block)).reshape(resamples, -1)[:, :samples]
    return xarray.DataArray(indices, dims=("resample", "sample"))


def compare_with_baselines(means: xarray.Dataset) -> tuple[xarray.Dataset, pd.DataFrame]:
    """Compute scores with their intervals, and compare the model with the best baseline.

    Args:
        means: means from :func:`~vrtspike.sst.scores.skill`; their samples are consecutive start
            months.

    Returns:
        Every score by ``system`` and ``lead``, NaN where there is none: ``_low`` and ``_high`` are
        the ends of its interval, ``_detrended`` is about the trend. The second table has a row for
        each ``lead``: ``difference_k`` of the RMSE has an interval (``low_k``, ``high_k``) and the
        two-sided ``p`` of no difference, both of this lead alone, and ``p_holm``, adjusted for the
        number of leads, from which the verdict follows. ``best_possible_k`` is the RMSE of that
        forecast, where ``means`` has it.

        The bootstrap's standard error comes from few blocks, so that intervals and p are those of
        Student's t with one degree of freedom less than there are blocks. In simulations of equally
        good forecasts, whose errors correlate by 0.5 to 0.7 from month to month, these tests find a
        difference in 4 to 11 % of cases for 12 to 120 start months; quantiles of the resamples do
        so in 12 to 30 %. With fewer than :data:`MIN_SAMPLES` samples all are NaN.
    """
    samples = means.sizes["sample"]
    scores = skill(means)
    resampled = skill(means.isel(sample=bootstrap_indices(samples))).where(samples >= MIN_SAMPLES)
    error = resampled.std("resample", ddof=1, skipna=False)
    student = stats.t(max(1, samples / block_length(samples) - 1))
    table = _with_intervals(scores, error * student.ppf((1 + LEVEL) / 2))

    best = table["rmse_k"].sel(system=list(BASELINES)).idxmin("system")
    baseline = table.sel(system=best).to_dataframe()
    difference = baseline["difference_k"]
    low = baseline["difference_k_low"]
    high = baseline["difference_k_high"]
    standard_error = error["difference_k"].sel(system=best).to_series()
    # Equal forecasts have difference and standard error 0.
    ratio = (difference.abs() / standard_error).fillna(0.0)
    p = pd.Series(2 * student.sf(ratio), ratio.index).where(high.notna())
    p_holm = adjust_holm(p)
    columns = {
        "verdict": _verdicts(difference, p_holm, samples) + " " + baseline["system"].map(BASELINES),
        "baseline": baseline["system"],
        "rmse_k": table["rmse_k"].sel(system=MODEL).to_series(),
        "baseline_k": baseline["rmse_k"],
        "difference_k": difference,
        "low_k": low,
        "high_k": high,
        "p": p,
        "p_holm": p_holm,
    }
    if BEST_POSSIBLE in table["system"]:
        columns["best_possible_k"] = table["rmse_k"].sel(system=BEST_POSSIBLE).to_series()
    return table, pd.DataFrame(columns)


def adjust_holm(p: pd.Series) -> pd.Series:
    """Adjust the p values of a family of tests by Holm's step-down method (1979).

    The smallest of n is multiplied by n, the next by n - 1 and so on; none is below a smaller one,
    or above 1. NaN counts as no test.

    >>> adjust_holm(pd.Series([0.01, 0.04, 0.03])).round(6).tolist()
    [0.03, 0.06, 0.06]
    """
    ascending = p.dropna().sort_values(kind="stable")
    factors = np.arange(len(ascending), 0, -1)
    adjusted = (ascending * factors).cummax().clip(upper=1.0)
    return adjusted.reindex(p.index)


def _with_intervals(scores: xarray.Dataset, half_widths: xarray.Dataset) -> xarray.Dataset:
    """Add the ends of the scores' intervals; those of correlations stay within -1 and 1."""
    table = scores.copy()
    for name, half_width in half_widths.items():
        low = scores[name] - half_width
        high = scores[name] + half_width
        if str(name).startswith(_CORRELATIONS):
            low = low.clip(min=-1.0)
            high = high.clip(max=1.0)
        table[f"{name}_low"] = low
        table[f"{name}_high"] = high
    return table


def _verdicts(difference: pd.Series, p: pd.Series, samples: int) -> pd.Series:
    """Return verdicts by lead, from the model's RMSE less the baseline's, and its adjusted p."""
    unknown = "without an RMSE to compare with"
    if samples < MIN_SAMPLES:
        unknown = "too few start months to tell from"
    is_significant = p < 1 - LEVEL
    verdicts = pd.Series("not distinguishable from", p.index)
    verdicts[is_significant & (difference > 0)] = "worse than"
    verdicts[is_significant & (difference < 0)] = "better than"
    verdicts[p.isna()] = unknown
    return verdicts
