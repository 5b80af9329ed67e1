"""An evaluation against one by hand, field by field, from the store's temperatures alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import xarray
from scipy.signal import lfilter

from tests.sst.conftest import YEARS
from vrtspike.sst.baselines import BASELINES
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.evaluate import (
    MODEL,
    SYSTEMS,
    Evaluation,
    block_choices,
    compare,
    evaluate,
    metric_tables,
)
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.grid import Area
from vrtspike.sst.store import PreparedStore, prepare

ICY = Area("Pacific", lon=[120, -80], lat=[-40, 64])
SAMPLES = 19
"""Three months are read, one is skipped, two are forecast: in two years."""


@pytest.fixture(scope="module")
def icy(tmp_path_factory) -> PreparedStore:
    """A region whose north freezes in winter, and which holds Niño 3.4."""
    folder = tmp_path_factory.mktemp("icy")
    write_example(folder, Globe(years=9, step=8.0, south=-64.0))
    return prepare(folder, ICY, 8, folder / "out" / "p.json", YEARS)


@pytest.fixture(scope="module")
def data(icy) -> ERA5SSTMonthlyDataset:
    return ERA5SSTMonthlyDataset(3, offset=1, lead=2, store=icy.path, split="test")


def half(past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
    """Half of the last anomaly, a quarter for the second lead; warmer late in the year."""
    last = past[:, -1:]
    return torch.cat([last / 2, last / 4], dim=1) + month[:, None, None, None] / 10


@pytest.fixture(scope="module")
def found(data) -> Evaluation:
    return evaluate(half, data)


def score(found: Evaluation, name: str, system: str, lead: int) -> float:
    return float(found.table[name].sel(system=system, lead=lead))


@pytest.fixture(scope="module")
def by_hand(icy) -> dict:
    """(system, months ahead) to lists of (weights, forecast, observed, trend, month), by cells."""
    sst = icy.fields["sst"].values.astype(np.float64)
    frozen = icy.fields["siconc"].values >= 0.15
    training = np.where(frozen, np.nan, sst)[:60].reshape(5, 12, *icy.grid.shape)
    rows = np.cos(np.deg2rad(icy.grid.latitudes))[:, None] * np.ones(icy.grid.shape[1])
    open_years = np.isfinite(training).sum(axis=0)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        climatology = np.where(open_years < 2.5, np.nan, np.nanmean(training, axis=0))
        variance = np.nanmean((training - climatology) ** 2, axis=0)
    anomaly = np.where(frozen, np.nan, sst) - np.tile(climatology, (9, 1, 1))
    deviation = np.fmax(np.sqrt(variance), 0.1)
    slope, middle = (icy.fields[name].values.astype(float) for name in ("trend", "middle"))
    first, sea = icy.first_month, icy.fields["sea"].values
    pairs: dict = {}
    for start in range(84, 84 + SAMPLES):
        last = start + 2
        known = np.nan_to_num(anomaly[last])
        for ahead in (2, 3):
            target = last + ahead
            observed = anomaly[target]
            trend = slope * (first + target - middle) / 12
            standard = known / deviation[last % 12]
            said = standard / (2 if ahead == 2 else 4) + (last % 12) / 10
            forecasts = {
                "model": said * deviation[target % 12],
                "persistence": known,
                "climatology": 0 * known,
                "trend": trend,
            }
            weights = (rows * np.isfinite(observed))[sea]
            for system, field in forecasts.items():
                case = [np.nan_to_num(f)[sea] for f in (field, observed, trend)]
                pairs.setdefault((system, ahead), []).append((weights, *case))
    return pairs


@pytest.mark.parametrize("ahead", [2, 3])
@pytest.mark.parametrize("system", ["model", "persistence", "climatology", "trend"])
def test_every_score_is_that_of_its_definition(found, by_hand, system, ahead):
    cases = by_hand[system, ahead]
    error = np.mean([np.average((f - o) ** 2, weights=w) for w, f, o, _ in cases])
    assert score(found, "rmse_k", system, ahead) == pytest.approx(np.sqrt(error), rel=1e-4)
    for about in ("", "_detrended"):
        for centred in ("", "_centred"):
            sums = []
            for w, f, o, trend in cases:
                a, b = (x - trend * bool(about) for x in (f, o))
                if centred:
                    a, b = a - np.average(a, weights=w), b - np.average(b, weights=w)
                sums.append([np.average(x * y, weights=w) for x, y in ((a, b), (a, a), (b, b))])
            product, own, other = np.mean(sums, axis=0)
            expected = product / np.sqrt(own * other) if own > 1e-9 else np.nan
            acc = score(found, f"acc{centred}{about}", system, ahead)
            assert acc == pytest.approx(expected, abs=1e-4, nan_ok=True)
    assert found.table.lead.values.tolist() == [2, 3]


def test_the_share_that_is_masked_is_told(found, by_hand, icy):
    weights = [case[0].sum() for ahead in (2, 3) for case in by_hand["model", ahead]]
    rows = np.cos(np.deg2rad(icy.grid.latitudes))[:, None] * icy.fields["sea"].values
    assert found.masked == pytest.approx(1 - np.mean(weights) / rows.sum(), rel=1e-3)
    assert 0.001 < found.masked < 0.2


def test_the_index_of_nino34_is_the_mean_of_its_box(found, icy, data):
    # The box: 190 to 240 E, 5 S to 5 N; rows of 8 degrees from 64 N.
    edges = np.deg2rad(np.clip(np.arange(64, -41, -8), -5, 5))
    rows = np.sin(edges[:-1]) - np.sin(edges[1:])
    west = np.arange(120, 280, 8)
    columns = np.clip(np.minimum(west + 8, 240) - np.maximum(west, 190), 0, None)
    box = np.outer(rows, columns) * icy.fields["sea"].values
    kelvin = np.nan_to_num(icy.anomalies)
    index = (kelvin * box).sum((1, 2)) / box.sum()
    last = np.array(data.last_months) - icy.first_month
    said = found.means["nino34"].sel(system="persistence", lead=3)
    np.testing.assert_allclose(said, index[last], atol=1e-6)
    expected = np.corrcoef(index[last], index[last + 3])[0, 1]
    assert score(found, "nino34", "persistence", 3) == pytest.approx(expected, abs=1e-6)
    assert np.isnan(score(found, "nino34", "climatology", 2))


def test_without_the_whole_box_there_is_no_index(download, tmp_path):
    area = Area("East", lon=[-144, -80], lat=[-40, 40])
    east = prepare(download, area, 8, tmp_path / "east.json", YEARS)
    short = ERA5SSTMonthlyDataset(20, store=east.path, split="test")
    found = evaluate(lambda past, month: past[:, -1:], short)
    assert np.isnan(found.table["nino34"]).all()


def test_maps_of_error(found, by_hand, icy):
    squares = np.array([(f - o) ** 2 for _, f, o, _ in by_hand["persistence", 3]])
    counts = np.array([w > 0 for w, *_ in by_hand["persistence", 3]])
    expected = np.sqrt((squares * counts).sum(0) / counts.sum(0))
    error, sea = found.errors.sel(system="persistence", lead=3).values, icy.fields["sea"].values
    assert np.isnan(error[~sea]).all()
    np.testing.assert_allclose(error[sea], expected, rtol=1e-3)


def test_the_best_baseline_is_what_a_model_is_compared_with(found):
    errors = {name: score(found, "rmse_k", name, 2) for name in BASELINES}
    best = min(errors, key=errors.__getitem__)
    compared = found.verdicts.loc[2]
    assert (compared["baseline"], compared["baseline_k"]) == (best, errors[best])
    for name, error in errors.items():
        beside = score(found, "rmse_k", MODEL, 2) - error
        assert score(found, "difference_k", name, 2) == pytest.approx(beside)
    difference = score(found, "difference_k", best, 2)
    assert compared["difference_k"] == difference
    # Months late in the year are forecast too warm: worse beyond chance.
    assert 0 < compared["low_k"] < difference < compared["high_k"]
    assert compared["p"] < 0.05
    assert compared["verdict"] == f"worse than {BASELINES[best]}"


def test_a_model_that_knows_the_answer_is_better(data):
    places = iter(range(SAMPLES))

    def knows(past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
        return torch.stack([data[next(places)]["future"] for _ in past]) * 0.95

    found = evaluate(knows, data)
    assert found.verdicts.loc[3, "verdict"].startswith("better than ")
    assert found.verdicts.loc[3, "p"] < 0.01
    assert score(found, "acc", MODEL, 3) > 0.999


def test_a_model_is_asked_as_it_is_used(data):
    class Last(torch.nn.Module):
        def forward(self, past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
            assert not self.training
            assert not torch.is_grad_enabled()
            return past[:, -1:].expand(-1, 2, -1, -1)

    told = []
    evaluate(Last().train(), data, batch_size=8, progress=lambda *at: told.append(at))
    assert told == [(8, 19), (16, 19), (19, 19)]


def test_tables_of_the_pipeline_agree_with_the_figures(found):
    frames, sequences = metric_tables(found)
    assert list(sequences["sequence"]) == ["2 months ahead", "3 months ahead"]
    assert list(sequences["frames"]) == [SAMPLES] * 2
    best = found.verdicts.loc[3, "baseline"]
    for column, system in (("rmse", MODEL), ("rmse_baseline", best), ("rmse_lim", "lim")):
        assert sequences[column][1] == pytest.approx(score(found, "rmse_k", system, 3))
        ahead = frames[frames["sequence"] == "3 months ahead"]
        assert np.sqrt((ahead[column] ** 2).mean()) == pytest.approx(sequences[column][1])
    assert (ahead["frame"].iloc[0], ahead["frame"].iloc[-1]) == ("1987-06", "1988-12")
    assert sequences["acc"][0] == pytest.approx(score(found, "acc", MODEL, 2))


@pytest.mark.parametrize(("samples", "block"), [(60, 12), (48, 12), (40, 10), (8, 2), (1, 1)])
def test_blocks_are_consecutive_and_every_start_is_drawn_alike(samples, block):
    choices = block_choices(samples, resamples=4000).values
    assert choices.shape == (4000, samples)
    assert (np.diff(choices[:, :block]) == 1).all()
    starts = np.bincount(choices[:, 0], minlength=samples)[: samples - block + 1]
    assert starts.sum() == 4000
    assert starts.min() > 0.5 * starts.mean()


def test_equally_good_forecasts_are_seldom_told_apart():
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


def test_a_model_that_does_what_the_baselines_do_is_not_distinguishable_from_them(found):
    means = found.means.sel(system=["persistence"] * len(SYSTEMS))
    _, verdicts = compare(means.assign_coords(system=list(SYSTEMS)))
    assert verdicts["verdict"].str.startswith("not distinguishable from ").all()
    assert (verdicts["p"] == 1).all()
