from __future__ import annotations

import csv
import json

import matplotlib.image
import numpy as np
import pytest
import torch

from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.evaluate import (
    CLIMATOLOGY,
    METHODS,
    MODEL,
    PERSISTENCE,
    evaluate,
    write_evaluation,
)
from vrtspike.sst.maps import draw_error_maps, draw_months


def half(past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
    """Two months: half and a quarter of the last anomaly, a month's number more; junk on land."""
    last = past[:, -1]
    ahead = torch.stack([last / 2, last / 4], dim=1) + month[:, None, None, None] / 10
    return torch.where(torch.zeros_like(ahead) == ahead, torch.nan, ahead)


@pytest.fixture(scope="module")
def data(store):
    return ERA5SSTMonthlyDataset(3, offset=1, store=store.path, lead=2, split="test")


@pytest.fixture(scope="module")
def found(data):
    return evaluate(half, data, batch_size=5)


@pytest.fixture(scope="module")
def by_hand(store):
    """(method, lead) to lists of (month of the year, forecast, observed) in kelvin, (H, W)."""
    first = store.years.months("test")[0]
    sst = store.read("sst", first, first + 24).astype(np.float64)
    kelvin = sst - np.tile(store.climatology, (2, 1, 1))
    deviation = store.deviation.astype(np.float64)
    pairs: dict = {(method, lead): [] for method in METHODS for lead in range(2)}
    # Three months are read, one is skipped, two are forecast: 19 samples in two years.
    for start in range(19):
        last = start + 2
        for lead in range(2):
            target = last + 2 + lead
            standard = kelvin[last] / deviation[last % 12]
            said = standard / (2 + 2 * lead) + (last % 12) / 10
            forecasts = {
                MODEL: said * deviation[target % 12],
                PERSISTENCE: kelvin[last],
                CLIMATOLOGY: 0 * kelvin[last],
            }
            for method, field in forecasts.items():
                pairs[method, lead].append((target % 12, field, kelvin[target]))
    return pairs


def figures(store, pairs):
    """RMSE and ACC of forecasts, in a few lines."""
    rows = np.cos(np.deg2rad(store.grid.latitudes))[:, None]
    w = np.broadcast_to(rows, store.sea.shape)[store.sea]
    f, o = (np.stack([pair[i][store.sea] for pair in pairs]) for i in (1, 2))
    rmse = np.sqrt(np.average((f - o) ** 2, axis=1, weights=w).mean())
    own, other = (w * f * f).sum(), (w * o * o).sum()
    return rmse, (w * f * o).sum() / np.sqrt(own * other) if own > 0 else None


@pytest.mark.parametrize("lead", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_figures_over_all_months(store, found, by_hand, method, lead):
    rmse, acc = figures(store, by_hand[method, lead])
    score = found.score(method, lead)
    assert score.samples == 19
    assert score.rmse_k == pytest.approx(rmse, rel=1e-4)
    assert score.acc == (None if acc is None else pytest.approx(acc, abs=1e-4))
    assert (score.acc is None) == (method == CLIMATOLOGY)


@pytest.mark.parametrize("month", range(12))
def test_figures_of_a_month_of_the_year(store, found, by_hand, month):
    for method in (MODEL, PERSISTENCE):
        chosen = [pair for pair in by_hand[method, 1] if pair[0] == month]
        score = found.score(method, 1, month)
        assert score.samples == len(chosen) > 0
        rmse, acc = figures(store, chosen)
        assert score.rmse_k == pytest.approx(rmse, rel=1e-4)
        assert score.acc == pytest.approx(acc, abs=1e-4)


def test_maps_of_error(store, found, by_hand):
    for method in METHODS:
        squares = [(f - o) ** 2 for _, f, o in by_hand[method, 1]]
        error = found.sums[method].error_map(1)
        assert (np.isnan(error) == ~store.sea).all()
        expected = np.sqrt(np.mean(squares, axis=0))[store.sea]
        np.testing.assert_allclose(error[store.sea], expected, rtol=1e-3)


def test_by_how_much_a_model_is_better(found):
    own, other = found.score(MODEL, 0).rmse_k, found.score(PERSISTENCE, 0).rmse_k
    assert found.improvement(0, PERSISTENCE) == pytest.approx((other - own) / other)
    # Half as large an error is better by a half.
    assert found.improvement(0, MODEL) == 0


def test_a_model_is_asked_as_it_is_used(data):
    class Last(torch.nn.Module):
        def forward(self, past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
            assert not self.training
            assert not torch.is_grad_enabled()
            return past[:, -1:].expand(-1, 2, -1, -1)

    told = []
    evaluate(Last().train(), data, batch_size=8, progress=lambda *at: told.append(at))
    assert told == [(8, 19), (16, 19), (19, 19)]


def test_what_is_written(store, found, tmp_path):
    summary = write_evaluation(tmp_path / "x", found, "Pacific")
    folder = tmp_path / "x"
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert summary["data"] == store.digest
    assert (summary["split"], summary["years"]) == ("test", [1987, 1988])
    # An offset of one month: the first forecast is two months ahead.
    assert [lead["lead"] for lead in summary["leads"]] == [2, 3]
    first = summary["leads"][0]
    assert first["samples"] == 19
    assert first["rmse_k"] == {method: found.score(method, 0).rmse_k for method in METHODS}
    assert first["improvement"]["climatology"] == found.improvement(0, CLIMATOLOGY)
    with (folder / "metrics.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 3 * 2 * 13
    chosen = [r for r in rows if (r["method"], r["lead"], r["month"]) == ("model", "3", "4")]
    april = found.score(MODEL, 1, 3)
    assert [(int(r["samples"]), float(r["rmse_k"])) for r in chosen] == [
        (april.samples, april.rmse_k)
    ]
    assert {r["acc"] for r in rows if r["method"] == "climatology"} == {""}
    for name in ("error_maps.png", "months.png"):
        assert matplotlib.image.imread(folder / name).std() > 0.05


def test_months_without_a_forecast_have_no_row(store):
    short = ERA5SSTMonthlyDataset(20, store=store.path, split="test")
    rows = evaluate(lambda past, month: past[:, -1:], short).rows()
    assert {row["month"] for row in rows} == {"all", 9, 10, 11, 12}
    assert evaluate(lambda past, month: past[:, -1:], short).score(MODEL, 0, 0).samples == 0


def test_maps_share_one_scale_and_show_land(tmp_path, store):
    sea = np.where(store.sea, 1.0, np.nan)
    for name, values in (("a", {"low": sea * 0.1, "high": sea}), ("b", {"low": sea, "high": sea})):
        draw_error_maps(tmp_path / f"{name}.png", values, 2, store.area, "t")
    a, b = (matplotlib.image.imread(tmp_path / f"{name}.png") for name in "ab")
    left, right = np.split(a[:, : a.shape[1] // 10 * 8], [a.shape[1] // 5 * 2], axis=1)
    yellow = np.array([253, 231, 37]) / 255
    land = np.array([160, 174, 192]) / 255

    def share(picture: np.ndarray, colour: np.ndarray) -> float:
        return float((np.abs(picture[..., :3] - colour) < 0.02).all(axis=2).mean())

    assert share(left, yellow) < 0.01 < 0.2 < share(right, yellow)
    assert share(left, land) > 0.02
    assert share(b, yellow) > 0.35


def test_a_month_without_figures_is_a_gap(tmp_path):
    draw_months(tmp_path / "m.png", {"model": [1.0] * 5 + [None] * 7}, "t")
    draw_months(tmp_path / "n.png", {"model": [1.0] * 12}, "t")
    one, other = ((tmp_path / f"{name}.png").read_bytes() for name in "mn")
    assert one != other
