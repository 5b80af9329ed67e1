"""Scores against their definitions, computed field by field."""

from __future__ import annotations

import numpy as np
import pytest
import xarray

from vrtspike.sst.scores import FORECAST_SYSTEMS, MODEL, field_means, skill

SAMPLES = 9
LEADS = (1, 3)
SIZE = (4, 5)
ABOUT = ("climatology", "trend")


def cells(values: np.ndarray, *dims: str) -> xarray.DataArray:
    return xarray.DataArray(values, dims=(*dims, "row", "column"))


def test_means_are_weighted_by_area_and_leave_out_cells_without_weight():
    forecast = np.array([[1.0, 2.0], [np.nan, 5.0]])
    observed = np.array([[0.0, 4.0], [3.0, np.nan]])
    weights = np.array([[3.0, 1.0], [0.0, 0.0]])
    means = field_means(cells(forecast), cells(observed), cells(weights))
    expected = {
        "error2": (3 * 1 + 1 * 4) / 4,
        "forecast": (3 * 1 + 2) / 4,
        "observed": 4 / 4,
        "product": 8 / 4,
        "forecast2": (3 * 1 + 4) / 4,
        "observed2": 16 / 4,
    }
    assert {name: float(value) for name, value in means.items()} == pytest.approx(expected)


@pytest.fixture(scope="module")
def fields() -> dict[str, np.ndarray]:
    """Forecasts of all systems, observations, trend, weights and the index, in kelvin."""
    random = np.random.default_rng(3)
    observed = random.normal(size=(SAMPLES, len(LEADS), *SIZE)) + 0.3
    noise = random.normal(size=(len(FORECAST_SYSTEMS), SAMPLES, len(LEADS), *SIZE))
    return {
        "observed": observed,
        "forecast": 0.6 * observed
        + noise * np.linspace(0.2, 1.4, len(FORECAST_SYSTEMS))[:, *[None] * 4],
        "trend": random.normal(size=(SAMPLES, len(LEADS), *SIZE)) / 3,
        "weights": random.uniform(0.1, 1, SIZE),
        "index": random.normal(size=(len(FORECAST_SYSTEMS), SAMPLES, len(LEADS))),
        "index_observed": random.normal(size=(SAMPLES, len(LEADS))),
    }


@pytest.fixture(scope="module")
def scores(fields) -> xarray.Dataset:
    """The scores of these fields."""
    dims = ("sample", "lead")
    forecast = cells(fields["forecast"], "system", *dims).assign_coords(
        system=list(FORECAST_SYSTEMS)
    )
    observed = cells(fields["observed"], *dims)
    trend = cells(fields["trend"], *dims)
    parts = [
        field_means(forecast - reference, observed - reference, cells(fields["weights"]))
        for reference in (xarray.zeros_like(trend), trend)
    ]
    means = xarray.concat(parts, "about").assign_coords(about=list(ABOUT), lead=list(LEADS))
    return skill(
        means.assign(
            nino34=(("system", *dims), fields["index"]),
            nino34_observed=(dims, fields["index_observed"]),
        )
    )


def mean(fields: dict[str, np.ndarray], field: np.ndarray) -> float:
    """The mean over the cells of one field."""
    return float((fields["weights"] * field).sum() / fields["weights"].sum())


def rmse(fields: dict[str, np.ndarray], system: int, lead: int) -> float:
    error = fields["forecast"][system, :, lead] - fields["observed"][:, lead]
    return float(np.sqrt(np.mean([mean(fields, field**2) for field in error])))


@pytest.mark.parametrize("lead", range(len(LEADS)))
def test_rmse_is_the_root_of_the_mean_over_all_forecasts(scores, fields, lead):
    errors = [rmse(fields, system, lead) for system in range(len(FORECAST_SYSTEMS))]
    np.testing.assert_allclose(scores["rmse_k"].isel(lead=lead), errors)
    model = errors[list(FORECAST_SYSTEMS).index(MODEL)]
    differences = model - np.array(errors)
    np.testing.assert_allclose(scores["difference_k"].isel(lead=lead), differences, atol=1e-12)


def anomaly_correlation(
    fields: dict[str, np.ndarray], system: int, lead: int, *, about_trend: bool, centered: bool
) -> float:
    sums = np.zeros(3)
    for sample in range(SAMPLES):
        reference = fields["trend"][sample, lead] if about_trend else 0.0
        forecast = fields["forecast"][system, sample, lead] - reference
        observed = fields["observed"][sample, lead] - reference
        if centered:
            forecast = forecast - mean(fields, forecast)
            observed = observed - mean(fields, observed)
        pairs = ((forecast, observed), (forecast, forecast), (observed, observed))
        sums += [mean(fields, one * other) for one, other in pairs]
    product, forecast2, observed2 = sums
    return float(product / np.sqrt(forecast2 * observed2))


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("about_trend", [False, True])
def test_anomalies_correlate_over_all_forecasts_together(scores, fields, about_trend, centered):
    name = "acc"
    if centered:
        name += "_centred"
    if about_trend:
        name += "_detrended"
    for system in range(len(FORECAST_SYSTEMS)):
        for lead in range(len(LEADS)):
            expected = anomaly_correlation(
                fields, system, lead, about_trend=about_trend, centered=centered
            )
            result = float(scores[name].isel(system=system, lead=lead))
            assert result == pytest.approx(expected, abs=1e-12)


def test_the_index_correlates_over_the_samples(scores, fields):
    for system in range(len(FORECAST_SYSTEMS)):
        for lead in range(len(LEADS)):
            index = fields["index"][system, :, lead]
            expected = np.corrcoef(index, fields["index_observed"][:, lead])[0, 1]
            result = float(scores["nino34"].isel(system=system, lead=lead))
            assert result == pytest.approx(expected)


def test_nothing_correlates_with_forecasts_that_do_not_vary(fields):
    observed = cells(fields["observed"], "sample", "lead")
    zero = xarray.zeros_like(observed).expand_dims(system=list(FORECAST_SYSTEMS))
    means = field_means(zero, observed, cells(fields["weights"])).expand_dims(about=list(ABOUT))
    index = xarray.ones_like(means["forecast"].isel(about=0))
    observed_index = (("sample", "lead"), fields["index_observed"])
    result = skill(means.assign(nino34=index, nino34_observed=observed_index))
    for name in ("acc", "acc_detrended", "acc_centred", "acc_centred_detrended", "nino34"):
        assert result[name].isnull().all(), name
    assert (result["rmse_k"] > 0).all()
