"""Intervals and verdicts, on forecasts whose true difference is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray
from scipy.signal import lfilter

from vrtspike.sst.comparison import adjust_holm, bootstrap_indices, compare_with_baselines
from vrtspike.sst.scores import FORECAST_SYSTEMS


@pytest.mark.parametrize(("samples", "block"), [(60, 12), (48, 12), (40, 10), (8, 2), (1, 1)])
def test_blocks_are_consecutive_and_every_start_is_drawn_alike(samples, block):
    choices = bootstrap_indices(samples, resamples=4000).values
    assert choices.shape == (4000, samples)
    assert (np.diff(choices[:, :block]) == 1).all()
    starts = np.bincount(choices[:, 0], minlength=samples)[: samples - block + 1]
    assert starts.sum() == 4000
    assert starts.min() > 0.5 * starts.mean()


def verdicts_of(error2: np.ndarray) -> pd.DataFrame:
    """Verdicts from squared errors (sample, system, lead)."""
    coordinates = {"system": list(FORECAST_SYSTEMS)}
    one = xarray.DataArray(error2, dims=("sample", "system", "lead"), coords=coordinates)
    one = one.assign_coords(lead=np.arange(error2.shape[-1]))
    both = one.expand_dims(about=["climatology", "trend"])
    names = ("error2", "forecast", "observed", "product", "forecast2", "observed2")
    means = xarray.Dataset(dict.fromkeys(names, both))
    means = means.assign(dict.fromkeys(("nino34", "nino34_observed"), one))
    return compare_with_baselines(means)[1]


def test_equally_good_forecasts_are_seldom_distinguished():
    """By quantiles of the resamples, or months drawn one by one, it would be one in four."""
    pushes = np.random.default_rng(1).normal(size=(44, 7, 100, 8))
    # Errors of 24 months that correlate by 0.5; all baselines but one are worse.
    error2 = (lfilter([1], [1, -0.5], pushes, axis=0)[20:] ** 2).mean(axis=-1)
    error2[:, 2:] += 9
    verdicts = verdicts_of(error2)
    # Each lead by itself: a hundred repetitions of the same test.
    excludes_zero = (verdicts["low_k"] > 0) | (verdicts["high_k"] < 0)
    assert excludes_zero.mean() <= 0.1
    assert (excludes_zero == (verdicts["p"] < 0.05)).all()
    # As a family of a hundred, none is.
    assert excludes_zero.any()
    assert verdicts["verdict"].str.startswith("not distinguishable").all()


def test_p_values_of_several_leads_are_adjusted_by_holm():
    """Four tests by hand: 4 x 0.01, 3 x 0.015, 2 x 0.02 raised to the one before, 1 x 0.6."""
    p = pd.Series([0.02, 0.6, 0.01, np.nan, 0.015], [1, 2, 3, 4, 5])
    expected = [0.045, 0.6, 0.04, np.nan, 0.045]
    assert adjust_holm(p).tolist() == pytest.approx(expected, nan_ok=True)
    assert list(adjust_holm(p).index) == [1, 2, 3, 4, 5]
    assert adjust_holm(pd.Series([0.5, 0.7])).tolist() == [1.0, 1.0]


def test_a_difference_at_one_of_many_leads_needs_more_than_its_own_p():
    """The same errors at one lead, and beside nine leads without a difference."""
    random = np.random.default_rng(2)
    error2 = 4 + random.normal(size=(60, len(FORECAST_SYSTEMS), 10))
    error2[:, 0, 0] -= 0.75
    alone = verdicts_of(error2[:, :, :1])
    among = verdicts_of(error2)
    assert alone["p"][0] < 0.05
    assert alone["verdict"][0].startswith("better than")
    assert among["p"][0] == alone["p"][0]
    assert among["p_holm"][0] > 0.05
    assert among["verdict"][0].startswith("not distinguishable")


def test_a_model_equal_to_the_baselines_is_not_distinguishable(evaluation):
    means = evaluation.means.sel(system=["persistence"] * len(FORECAST_SYSTEMS))
    _, verdicts = compare_with_baselines(means.assign_coords(system=list(FORECAST_SYSTEMS)))
    assert verdicts["verdict"].str.startswith("not distinguishable from ").all()
    assert (verdicts["p"] == 1).all()
