"""Scores from first principles, loop by loop."""

from __future__ import annotations

import numpy as np
import pytest
import xarray

import vrtspike.sst.evaluate as scores

RANDOM = np.random.default_rng(0)
OBSERVED = RANDOM.normal(size=(9, 2, 5, 1))
FORECAST = 0.6 * OBSERVED + 0.4 * RANDOM.normal(size=OBSERVED.shape) + 0.3
WEIGHTS = RANDOM.uniform(0.1, 1, OBSERVED.shape) * (RANDOM.uniform(size=OBSERVED.shape) > 0.2)
WEIGHTS[:, :, 0] = 1


def means(forecast: np.ndarray = FORECAST) -> xarray.Dataset:
    fields = (
        xarray.DataArray(values, dims=("sample", "lead", "row", "column"))
        for values in (forecast, OBSERVED, WEIGHTS)
    )
    found = scores.field_means(*fields).expand_dims(system=[scores.MODEL])
    index = {"nino34": found["forecast"], "nino34_observed": found["observed"]}
    return found.expand_dims(about=["climatology", "trend"]).assign(index)


def test_what_has_no_weight_does_not_count_whatever_it_is():
    spoilt = np.where(WEIGHTS > 0, FORECAST, np.nan)
    xarray.testing.assert_allclose(means(spoilt), means())


def test_without_anomalies_there_is_no_correlation():
    nothing = scores.skill(means(np.zeros_like(FORECAST)))
    for name in ("acc", "acc_centred", "nino34"):
        assert np.isnan(nothing[name]).all(), name
    assert (nothing["rmse_k"] > 0).all()


def test_blocks_are_consecutive_and_every_start_is_drawn_alike():
    choices = scores.block_choices(60, resamples=4000)
    assert choices.shape == (4000, 60)
    blocks = choices.values.reshape(4000, 5, 12)
    assert (np.diff(blocks, axis=2) == 1).all()
    starts = np.bincount(blocks[:, :, 0].ravel(), minlength=60)
    assert starts[49:].sum() == 0
    assert starts[:49].min() > 0.8 * starts[:49].mean()
    assert np.array_equal(choices, scores.block_choices(60, resamples=4000))
    # Of few samples a block is a quarter.
    short = scores.block_choices(10, resamples=7)
    assert (np.diff(short.values[:, :10].reshape(7, 5, 2), axis=2) == 1).all()
    assert scores.block_choices(1, resamples=3).values.tolist() == [[0]] * 3


def test_intervals_are_as_wide_as_chance_makes_the_mean():
    """Red noise of 40 years: the interval of its mean holds 1.96 standard errors each way.

    Months drawn one by one would make it narrower by a factor of 0.58.
    """
    memory, months = 0.5, 480
    values = [np.zeros(30)]
    for push in np.random.default_rng(1).normal(size=(months + 50, 30)):
        values.append(memory * values[-1] + push)
    series = np.array(values[-months:])
    error2 = xarray.Dataset({"error2": (("sample", "series"), series)})
    drawn = error2.isel(sample=scores.block_choices(months)).mean("sample")["error2"]
    low, high = (drawn.quantile(end, "resample") for end in (0.025, 0.975))
    # The variance of a mean of such noise, for many months.
    deviation = np.sqrt(1 / months) / (1 - memory)
    assert float((high - low).mean()) / 2 == pytest.approx(1.96 * deviation, rel=0.12)


def test_a_model_that_does_what_the_best_baseline_does_is_not_distinguishable_from_it():
    alike = means().squeeze("system").expand_dims(system=list(scores.SYSTEMS))
    found = scores.Evaluation(range(9), alike).verdicts
    assert found["verdict"].str.startswith("not distinguishable from ").all()
    assert (found["p"] == 1).all()
