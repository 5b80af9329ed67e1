"""The best possible forecast of generated data against the generator's equations."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.sst.baselines import BASELINES
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.evaluate import ForecastEvaluation, best_possible_forecasts, evaluate
from vrtspike.sst.generate import ANOMALY_MEMORY, DECAY, EL_NINO_K, WEATHER_K, Globe, write_example
from vrtspike.sst.grid import Area
from vrtspike.sst.preparation import prepare
from vrtspike.sst.results import metric_tables
from vrtspike.sst.scores import BEST_POSSIBLE, MODEL
from vrtspike.sst.settings import Years

GLOBE = Globe(years=60, step=8.0, south=-56.0)
POINTS = Area("Pacific", lon=[116, -76], lat=[-44, 36])
"""At 8 degrees each cell is one point of the globe; none of them freezes."""
YEARS = Years(TRAIN=(1980, 2009), VAL=(2010, 2011), TEST=(2012, 2039))
BLOCK = 12
"""Start months whose mean errors count as independent: forecasts of three months overlap."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> ERA5SSTMonthlyDataset:
    folder = tmp_path_factory.mktemp("points")
    write_example(folder, GLOBE)
    store = prepare(folder, POINTS, 8, folder / "out" / "p.json", YEARS)
    return ERA5SSTMonthlyDataset(2, offset=1, lead=2, store=store.path, split="test")


@pytest.fixture(scope="module")
def result(dataset) -> ForecastEvaluation:
    """An evaluation of the best possible forecast and a tenth less of it."""
    best = best_possible_forecasts(GLOBE, dataset)
    deviation = dataset.store.fields["deviation"]
    batches = iter(range(0, len(dataset), 32))

    def weaker(past, month):
        start = next(batches)
        kelvin = best.isel(time=slice(start, start + len(past)))
        ahead = kelvin["lead"].values
        calendar = (month.numpy()[:, None] + ahead) % 12
        return past.new_tensor(0.9 * kelvin.values / deviation.values[calendar])

    return evaluate(weaker, dataset, batch_size=32, best_possible=best)


def expected_error2(dataset: ERA5SSTMonthlyDataset, ahead: int) -> float:
    """Mean squared error of the expectation: the variance that chance adds in some months.

    A forecast from the past differs from the expectation by something that is independent of what
    chance adds, so its mean squared error is this one plus the mean square of the difference.
    """
    lat, lon = np.meshgrid(dataset.store.grid.latitudes, dataset.store.grid.longitudes % 360)
    # Each of both parts of the oscillation has a variance of 1, of which exp(-2 n / DECAY) stays.
    strength = 0.0
    for center, phase in ((215, 0), (160, 1.5)):
        core = np.exp(-((lat / 14) ** 2) - ((lon - center) / 45) ** 2)
        waves = 0.8 * np.sin(2 * np.deg2rad(lat)) * np.cos(2 * np.deg2rad(lon) + phase)
        strength = strength + (EL_NINO_K * (core + waves)) ** 2
    swing = strength * (1 - np.exp(-2 * ahead / DECAY))
    variance = swing.T + WEATHER_K**2 * (1 - ANOMALY_MEMORY ** (2 * ahead))
    return float((variance * dataset.store.weights.values).sum())


@pytest.mark.parametrize("ahead", [2, 3])
def test_its_error_is_what_chance_adds_and_no_forecast_has_less(dataset, result, ahead):
    error2 = result.means["error2"].sel(about="climatology", lead=ahead)
    expected = expected_error2(dataset, ahead)
    blocks = error2.coarsen(sample=BLOCK, boundary="trim").mean()
    standard_error = blocks.std("sample", ddof=1) / np.sqrt(blocks.sizes["sample"])
    best_error = float(standard_error.sel(system=BEST_POSSIBLE))
    assert best_error < 0.1 * expected
    assert abs(float(error2.sel(system=BEST_POSSIBLE).mean()) - expected) < 3 * best_error
    excess = blocks - blocks.sel(system=BEST_POSSIBLE)
    excess_error = excess.std("sample", ddof=1) / np.sqrt(blocks.sizes["sample"])
    others = [MODEL, *BASELINES]
    assert (excess.mean("sample") > -3 * excess_error).sel(system=others).all()
    # A tenth less of the expectation costs a hundredth of its square.
    squares = result.means["forecast2"].sel(about="climatology", lead=ahead, system=BEST_POSSIBLE)
    model_excess = float(excess.sel(system=MODEL).mean())
    limit = 3 * float(excess_error.sel(system=MODEL))
    assert model_excess == pytest.approx(0.01 * float(squares.mean()), abs=limit)


def test_its_rows_are_in_tables_and_it_is_no_baseline(result):
    frames, sequences = metric_tables(result)
    best = result.table["rmse_k"].sel(system=BEST_POSSIBLE)
    assert list(sequences["rmse_best_possible"]) == pytest.approx(best.values.tolist())
    assert {"rmse_best_possible", "acc_best_possible"} <= {*frames}
    assert list(result.verdicts["best_possible_k"]) == best.values.tolist()
    assert BEST_POSSIBLE not in result.verdicts["baseline"].tolist()


def test_without_it_there_is_no_row(evaluation):
    assert BEST_POSSIBLE not in evaluation.table["system"]
    assert "best_possible_k" not in evaluation.verdicts
    assert "rmse_best_possible" not in metric_tables(evaluation)[1]


def test_freezing_water_is_expected_between_both_limits():
    """The expectation of temperatures near freezing, beside the mean of a million draws."""
    globe = Globe(years=2, step=8.0, south=-64.0)
    expected = globe.expectation(3)
    deviation = np.sqrt(globe.error_variance(3))
    places = np.argwhere(abs(expected - 271.35) < deviation)
    draws = np.random.default_rng(0).normal(size=1_000_000)
    for month, row, column in places[:: len(places) // 5]:
        values = expected[month, row, column] + deviation[row, column] * draws
        frozen = np.maximum(values, 271.35)
        best = globe.best_forecast(3)[month, row, column]
        assert best == pytest.approx(frozen.mean(), abs=4 * frozen.std() / 1000)
