"""Baselines against what theory says of red noise, trends and oscillations."""

from __future__ import annotations

import numpy as np
import pytest
import xarray

from tests.sst.known_series import ahead, errors, lines, series
from vrtspike.sst.baselines import Baselines, trend_line

MEMORY = 0.8
MONTHS = 1500


def red_noise(months: int, cells: int = 3, seed: int = 0) -> np.ndarray:
    """Autoregression of order 1 with a variance of 1, from its definition."""
    random = np.random.default_rng(seed)
    values = [random.normal(size=cells)]
    for _ in range(months - 1):
        pushes = np.sqrt(1 - MEMORY**2) * random.normal(size=cells)
        values.append(MEMORY * values[-1] + pushes)
    return np.array(values)


def slopes(kelvin: xarray.DataArray, months: int) -> np.ndarray:
    """Forecast of damped persistence for an anomaly of 1."""
    one = xarray.ones_like(kelvin[-1])
    baselines = Baselines(kelvin, lines(*kelvin.shape[:2]), ahead(months))
    forecasts = baselines.forecast(one, 0)
    return forecasts.sel(system="damped")[0].values.ravel()


@pytest.mark.parametrize("months", [1, 3])
def test_damped_persistence_is_the_best_forecast_of_red_noise(months):
    training, later = (series(red_noise(MONTHS, seed=seed)) for seed in (0, 1))
    result = errors(training, lines(MONTHS), later, months)
    left = MEMORY**months
    # What can be known of a later month leaves 1 - r^2, climatology all, persistence 2 (1 - r).
    assert result["damped"] == pytest.approx(1 - left**2, rel=0.08)
    assert result["climatology"] == pytest.approx(1, rel=0.12)
    assert result["persistence"] == pytest.approx(2 * (1 - left), rel=0.08)
    # Of three cells the linear inverse model is an autoregression, too.
    assert result["lim"] == pytest.approx(result["damped"], rel=0.02)
    assert result["damped"] < 0.999 * min(result["persistence"], result["climatology"])


def test_damping_without_a_season_is_the_slope_of_each_cell_and_skips_missing_values():
    noise = red_noise(200)
    noise[50:60, 0] = np.nan
    result = slopes(series(noise), 2)
    for cell, pairs in enumerate((198 - 12, 198, 198)):
        before, after = noise[:-2, cell], noise[2:, cell]
        valid = np.isfinite(before * after)
        assert valid.sum() == pairs
        before, after = before[valid], after[valid]
        assert result[cell] == pytest.approx(before @ after / (before @ before))
    noise[:, 0] = np.nan
    assert slopes(series(noise), 1)[0] == 0


def test_a_trend_is_extrapolated():
    """Two kelvin a decade; 40 years on, only those that know of it are right."""
    cells, now = lines(MONTHS, slope=0.2), series(red_noise(MONTHS))
    later = series(red_noise(MONTHS, seed=2), MONTHS + 480)
    training, later = (field + trend_line(cells, field.time) for field in (now, later))
    result = errors(training, cells, later, 3)
    assert result["trend"] == pytest.approx(1, rel=0.15)
    assert result["damped_trend"] == pytest.approx(1 - MEMORY**6, rel=0.1)
    assert result["lim"] == pytest.approx(result["damped_trend"], rel=0.05)
    assert result["climatology"] > 100
    assert trend_line(cells, int(cells.middle[0, 0] + 12.5)).values == pytest.approx(0.2, abs=0.01)


def test_missing_anomalies_are_forecast_as_climatology_or_trend():
    cells, now = lines(600, 2, 0.1), series(red_noise(600, cells=2))
    last = xarray.DataArray([[np.nan], [0.5]], dims=("row", "column"))
    training = now + trend_line(cells, now.time)
    forecasts = Baselines(training, cells, ahead(1)).forecast(last, 1000)
    assert np.isfinite(forecasts).all()
    for name in ("persistence", "damped", "climatology"):
        assert forecasts.sel(system=name)[0, 0, 0] == 0
    for name in ("trend", "damped_trend"):
        assert forecasts.sel(system=name)[0, 0, 0] == trend_line(cells, 1001)[0, 0]
