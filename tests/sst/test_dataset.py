"""Samples of months: splits, gaps, workers, losses over open sea."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import asdict

import numpy as np
import pytest
import torch

from tests.sst.conftest import PACIFIC, YEARS, changed
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.months import month_number
from vrtspike.sst.objective import SSTObjective
from vrtspike.system.errors import ConfigError, DataError


def months(store, first: tuple[int, int], count: int) -> np.ndarray:
    place = month_number(*first) - store.first_month
    return np.nan_to_num(store.standardized[place : place + count])


def test_a_sample_is_some_months_and_those_that_follow(store):
    data = ERA5SSTMonthlyDataset(3, store=store.path, lead=2)
    skipping = ERA5SSTMonthlyDataset(2, offset=3, store=store.path)
    np.testing.assert_array_equal(skipping[0]["future"], months(store, (1980, 6), 1))
    sample = data[10]
    assert sample["past"].shape == (3, 10, 20)
    np.testing.assert_array_equal(sample["past"], months(store, (1980, 11), 3))
    np.testing.assert_array_equal(sample["future"], months(store, (1981, 2), 2))
    # January 1981 is the last month that is read.
    assert int(sample["month"]) == 0
    assert data.last_months[10] == month_number(1981, 1)
    np.testing.assert_array_equal(sample["valid"], np.isfinite(store.standardized[13:15]))


@pytest.mark.parametrize(
    ("split", "first", "years"), [("train", 1980, 5), ("val", 1985, 2), ("test", 1987, 2)]
)
def test_every_month_of_a_sample_lies_in_its_split(store, split, first, years):
    data = ERA5SSTMonthlyDataset(4, offset=1, store=store.path, lead=2, split=split)
    assert len(data) == 12 * years - 6
    np.testing.assert_array_equal(data[0]["past"], months(store, (first, 1), 4))
    last = data[len(data) - 1]["future"]
    np.testing.assert_array_equal(last, months(store, (first + years - 1, 11), 2))
    with pytest.raises(IndexError):
        data[len(data)]


def test_downloaded_files_are_read_directly(download, store, tmp_path):
    data = ERA5SSTMonthlyDataset(
        seq_len=2,
        offset=0,
        resolution=8,
        area=asdict(PACIFIC),
        data=str(download),
        years={"train": [1980, 1984], "val": [1985, 1986], "test": [1987, 1988]},
        prepared=tmp_path,
    )
    assert data.store.digest == store.digest


def test_a_worker_opens_the_data_itself(store):
    data = ERA5SSTMonthlyDataset(2, store=store.path)
    expected = data[5]["past"]
    sent = pickle.dumps(data)
    assert len(sent) < 10_000
    assert torch.equal(pickle.loads(sent)[5]["past"], expected)


def test_samples_with_missing_months_are_left_out_and_counted(download, tmp_path):
    """1980-06 is missing: of three months read, one skipped and one forecast, four samples."""
    shutil.copy(download / "sst.nc", tmp_path)
    changed(tmp_path / "sst.nc", lambda d: d.drop_isel(valid_time=5))
    options = {"area": PACIFIC, "data": tmp_path, "years": YEARS.model_dump()}
    data = ERA5SSTMonthlyDataset(3, 1, 8, **options)
    assert data.left_out == 4
    assert len(data) == 56 - 4
    # The month may be skipped.
    firsts = [last - 2 - month_number(1980, 1) for last in data.last_months]
    assert firsts == [0, 2, *range(6, 56)]
    whole = ERA5SSTMonthlyDataset(3, 1, 8, **options | {"split": "test"})
    assert (whole.left_out, len(whole)) == (0, 20)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seq_len": 0}, "seq_len\n  Input should be greater than or equal to 1"),
        ({"split": "training"}, "split\n  String should match pattern"),
        ({"area": {"name": "A", "lon": [0, 0], "lat": [0, 1]}}, "area A: found lon"),
        ({"store": None, "area": asdict(PACIFIC), "years": {"train": [1, 2]}}, "VAL\n  Field req"),
        ({"store": None}, "area: found None, expected a region"),
    ],
)
def test_what_makes_no_sense_is_refused(store, options, words):
    with pytest.raises((ConfigError, ValueError), match=words):
        ERA5SSTMonthlyDataset(**{"seq_len": 2, "store": store.path} | options)


def test_a_split_shorter_than_a_sample_is_refused(store):
    with pytest.raises(
        DataError, match=r"val have 24 months, 0 of them missing, .*takes 25 \(seq_len 20, offset 4"
    ):
        ERA5SSTMonthlyDataset(20, offset=4, store=store.path, split="val")
    assert len(ERA5SSTMonthlyDataset(20, offset=3, store=store.path, split="val")) == 1


SEA = np.array([[True, True, False], [True, False, True]])
WEIGHTS = np.array([[0.4, 0.2, 0.0], [0.1, 0.0, 0.3]])
DEVIATION = np.arange(1, 73.0).reshape(12, 2, 3) / 10


def batch_and_output() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    random = torch.Generator().manual_seed(5)
    past, future, output = (torch.randn(3, n, 2, 3, generator=random) for n in (4, 2, 2))
    return {"past": past, "future": future, "month": torch.tensor([0, 10, 11])}, output


@pytest.mark.parametrize("iced", [False, True])
@pytest.mark.parametrize("offset", [0, 2])
def test_loss_and_metrics_are_of_open_sea_in_the_months_forecast(offset, iced):
    batch, output = batch_and_output()
    valid = torch.rand(3, 2, 2, 3, generator=torch.Generator().manual_seed(1)) > 0.3 * iced
    if iced:
        batch["valid"] = valid
    objective = SSTObjective(WEIGHTS, DEVIATION, offset)
    result = objective.metrics(output, objective.prepare(batch, torch.device("cpu")))
    losses = []
    for sample, month in enumerate((0, 10, 11)):
        kelvin = DEVIATION[(month + offset + np.array([1, 2])) % 12]
        weights = WEIGHTS * valid[sample].numpy()
        weights /= weights.sum((1, 2), keepdims=True)
        f, o = (x[sample].numpy().astype(float) for x in (output, batch["future"]))
        losses.append((weights * (f - o) ** 2).sum() / 2)
        f, o = f * kelvin, o * kelvin
        error, product, squared_truth, other = (
            (weights * field).sum() for field in ((f - o) ** 2, f * o, f * f, o * o)
        )
        assert result[sample]["rmse"] == pytest.approx(np.sqrt(error / 2), rel=1e-5)
        assert result[sample]["acc"] == pytest.approx(
            product / np.sqrt(squared_truth * other), rel=1e-4
        )
    assert float(objective.losses(output, batch, 0)["mse"]) == pytest.approx(
        np.mean(losses), rel=1e-5
    )
    nothing = objective.metrics(torch.zeros_like(output), batch)
    assert [metrics["acc"] for metrics in nothing] == [0, 0, 0]


def test_the_objective_of_a_data_set_measures_in_its_kelvin_and_months(store):
    samples = ERA5SSTMonthlyDataset(2, offset=3, store=store.path)
    batch = {name: values[None] for name, values in samples[0].items()}
    # One standard deviation too warm everywhere.
    rmse = SSTObjective.from_dataset(samples).metrics(batch["future"] + 1, batch)[0]["rmse"]
    target = (int(batch["month"]) + 4) % 12
    deviation = np.nan_to_num(store.fields["deviation"].values[target])
    valid = batch["valid"][0, 0].numpy()
    weights = np.asarray(store.weights) * valid
    assert rmse == pytest.approx(np.sqrt(np.average(deviation**2, weights=weights)), rel=1e-4)


def test_no_gradient_comes_from_land_even_where_it_is_not_a_number():
    batch, output = batch_and_output()
    land = torch.from_numpy(~SEA)
    batch["future"][..., land] = float("nan")
    SSTObjective(WEIGHTS, DEVIATION).losses(output.requires_grad_(), batch, 0)["mse"].backward()
    assert output.grad is not None
    assert (output.grad[..., land] == 0).all()
    assert (output.grad[..., ~land] != 0).all()
