"""Intervals and verdicts, on forecasts whose true difference is known."""

from __future__ import annotations

import numpy as np
import pytest
import xarray
from scipy.signal import lfilter

from vrtspike.sst.comparison import block_choices, compare
from vrtspike.sst.scores import SYSTEMS


@pytest.mark.parametrize(("samples", "block"), [(60, 12), (48, 12), (40, 10), (8, 2), (1, 1)])
def test_blocks_are_consecutive_and_every_start_is_drawn_alike(samples, block):
    choices = block_choices(samples, resamples=4000).values
    assert choices.shape == (4000, samples)
    assert (np.diff(choices[:, :block]) == 1).all()
    starts = np.bincount(choices[:, 0], minlength=samples)[: samples - block + 1]
    assert starts.sum() == 4000
    assert starts.min() > 0.5 * starts.mean()


def test_equally_good_forecasts_are_seldom_distinguished():
    """By quantiles of the resamples, or months drawn one by one, it would be one in four."""
    pushes = np.random.default_rng(1).normal(size=(44, 7, 100, 8))
    # Errors of 24 months that correlate by 0.5; all baselines but one are worse.
    error2 = (lfilter([1], [1, -0.5], pushes, axis=0)[20:] ** 2).mean(axis=-1)
    error2[:, 2:] += 9
    coordinates = {"system": list(SYSTEMS)}
    one = xarray.DataArray(error2, dims=("sample", "system", "lead"), coords=coordinates)
    both = one.expand_dims(about=["climatology", "trend"])
    names = ("error2", "forecast", "observed", "product", "forecast2", "observed2")
    means = xarray.Dataset(dict.fromkeys(names, both))
    means = means.assign(dict.fromkeys(("nino34", "nino34_observed"), one))
    _, verdicts = compare(means)
    told_apart = ~verdicts["verdict"].str.startswith("not distinguishable")
    assert told_apart.mean() <= 0.1
    assert (told_apart == (verdicts["p"] < 0.05)).all()


def test_a_model_equal_to_the_baselines_is_not_distinguishable(evaluation):
    means = evaluation.means.sel(system=["persistence"] * len(SYSTEMS))
    _, verdicts = compare(means.assign_coords(system=list(SYSTEMS)))
    assert verdicts["verdict"].str.startswith("not distinguishable from ").all()
    assert (verdicts["p"] == 1).all()
