"""Pooling of calendar months: sums, widths, and the gain or loss of monthly coefficients."""

from __future__ import annotations

import numpy as np
import pytest
import xarray

from tests.sst.known_series import ahead, lines, series
from vrtspike.sst.baselines import Baselines, lagged_regression
from vrtspike.sst.pooling import FOLDS, HALF_WIDTHS, fold_sums, pooled

CELLS = 20
SEASONAL = 0.6 + 0.35 * np.cos(2 * np.pi * (np.arange(12) - 9) / 12)
"""Share of an anomaly that is left after a month, by calendar month: least in boreal spring."""
CONSTANT = np.full(12, 0.6)


def damped_noise(memory: np.ndarray, years: int, seed: int) -> np.ndarray:
    """(months, cells) autoregression of order 1 whose coefficient depends on the month."""
    random = np.random.default_rng(seed)
    values = [random.normal(size=CELLS)]
    for month in range(12 * years - 1):
        values.append(memory[month % 12] * values[-1] + random.normal(size=CELLS))
    return np.array(values)


def yearly_damping(training: np.ndarray, later: np.ndarray, months: int) -> float:
    """Mean squared error of one coefficient a cell for the whole year."""
    before = training[:-months]
    slopes = (before * training[months:]).sum(0) / (before**2).sum(0)
    return float(np.mean((slopes * later[:-months] - later[months:]) ** 2))


def yearly_matrix(training: np.ndarray, later: np.ndarray, months: int) -> float:
    """Mean squared error of one matrix for the whole year, of a model without components."""
    step = np.linalg.lstsq(training[:-1], training[1:])[0]
    forecast = later[:-months] @ np.linalg.matrix_power(step, months)
    return float(np.mean((forecast - later[months:]) ** 2))


YEARLY = {"damped": yearly_damping, "lim": yearly_matrix}


def monthly_error(training: np.ndarray, later: np.ndarray, months: int, system: str) -> float:
    """Mean squared error of a baseline."""
    cells = lines(len(training), training.shape[1])
    baselines = Baselines(series(training), cells, ahead(months))
    now = series(later)[:-months]
    values = baselines.forecast(now, now["time"]).sel(system=system).isel(lead=0)
    return float(((values - later[months:, :, None]) ** 2).mean())


@pytest.mark.parametrize("chunked", [False, True])
def test_sums_are_by_block_of_years_and_calendar_month(chunked):
    months = np.arange(12 * 1990 + 3, 12 * 1990 + 3 + 110)
    values = np.random.default_rng(0).normal(size=(110, 2))
    values[17, 1] = np.nan
    products = xarray.DataArray(values, {"time": months}, ("time", "cell"))
    result = fold_sums(products.chunk(time=12) if chunked else products)
    expected = np.zeros((FOLDS, 12, 2))
    for month, row in zip(months, np.nan_to_num(values), strict=True):
        # Ten calendar years, two of each block.
        expected[(month // 12 - 1990) // 2, month % 12] += row
    np.testing.assert_allclose(result, expected)


def test_neighbours_are_pooled_across_the_end_of_the_year():
    sums = 10.0 ** np.arange(12)
    assert pooled(sums, 0).tolist() == sums.tolist()
    assert pooled(sums, 1)[0] == sums[11] + sums[0] + sums[1]
    assert pooled(sums, 2)[11] == pytest.approx(sums[[9, 10, 11, 0, 1]].sum())
    assert pooled(sums, max(HALF_WIDTHS)) == pytest.approx(np.full(12, sums.sum()))


def test_few_neighbours_are_pooled_with_a_season_and_all_without():
    weights = lines(1, CELLS)["weight"]
    seasonal = series(damped_noise(SEASONAL, 40, seed=0))
    assert lagged_regression(seasonal, weights, 1).half_width <= 2
    constant = series(damped_noise(CONSTANT, 40, seed=0))
    assert lagged_regression(constant, weights, 1).half_width >= 5


def test_slopes_are_those_of_the_pairs_of_their_months():
    noise = damped_noise(SEASONAL, 40, seed=4)
    # The first month is a May, so that the fourth of the series is an August.
    fit = lagged_regression(series(noise, 4), lines(1, CELLS)["weight"], 2)
    starts = np.arange(len(noise) - 2)
    distance = np.minimum((starts - 3) % 12, (3 - starts) % 12)
    starts = starts[distance <= fit.half_width]
    before = noise[starts]
    expected = (before * noise[starts + 2]).sum(0) / (before**2).sum(0)
    np.testing.assert_allclose(fit.coefficients[7, :, 0], expected)
    assert len(starts) < len(noise) / 2


@pytest.mark.parametrize(
    ("system", "cells", "months"), [("damped", 20, 1), ("damped", 20, 3), ("lim", 3, 3)]
)
def test_monthly_coefficients_gain_with_a_season_and_lose_little_without(system, cells, months):
    ratios = {}
    for name, memory in (("seasonal", SEASONAL), ("constant", CONSTANT)):
        training = damped_noise(memory, 40, seed=1)[:, :cells]
        later = damped_noise(memory, 200, seed=2)[:, :cells]
        yearly = YEARLY[system](training, later, months)
        ratios[name] = monthly_error(training, later, months, system) / yearly
    assert ratios["seasonal"] < 0.97
    assert ratios["constant"] < 1.02
