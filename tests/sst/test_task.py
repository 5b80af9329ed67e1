from __future__ import annotations

import numpy as np
import pytest
import torch

from vrtspike.sst.task import SSTTask

SEA = np.array([[True, True, False], [True, False, True]])
WEIGHTS = np.array([[0.4, 0.2, 0.0], [0.1, 0.0, 0.3]])
DEVIATION = np.arange(1, 73.0).reshape(12, 2, 3) / 10
CPU = torch.device("cpu")


def batch(lead: int = 2) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(5)
    return {
        "past": torch.randn(3, 4, 2, 3, generator=random),
        "future": torch.randn(3, lead, 2, 3, generator=random),
        "month": torch.tensor([0, 10, 11]),
        "index": torch.arange(3),
    }


def test_ice_does_not_count():
    task, given, said = SSTTask(WEIGHTS, DEVIATION), batch(), output()
    valid = torch.rand(3, 2, 2, 3, generator=torch.Generator().manual_seed(1)) > 0.3
    weights = WEIGHTS * valid.numpy()
    error = (said - given["future"]).numpy().astype(np.float64) ** 2
    expected = ((error * weights).sum((2, 3)) / weights.sum((2, 3))).mean()
    given["valid"] = valid
    assert float(task.losses(said, given, 0)["mse"]) == pytest.approx(expected, rel=1e-5)
    kelvin = DEVIATION[(given["month"].numpy()[:, None] + [1, 2]) % 12]
    means = (error * kelvin**2 * weights).sum((2, 3)) / weights.sum((2, 3))
    found = [metrics["rmse"] for metrics in task.metrics(said, given)]
    assert found == pytest.approx(np.sqrt(means.mean(1)), rel=1e-5)


def output(lead: int = 2) -> torch.Tensor:
    return torch.randn(3, lead, 2, 3, generator=torch.Generator().manual_seed(6))


def test_no_gradient_comes_from_land_even_where_it_is_not_a_number():
    task, given = SSTTask(WEIGHTS, DEVIATION), batch()
    land = torch.from_numpy(~SEA)
    given["future"][..., land] = float("nan")
    said = output().requires_grad_()
    task.losses(said, given, 0)["mse"].backward()
    assert said.grad is not None
    assert (said.grad[..., land] == 0).all()
    assert (said.grad[..., ~land] != 0).all()


@pytest.mark.parametrize("offset", [0, 2])
def test_validation_is_in_kelvin_of_the_months_forecast(offset):
    task, given, said = SSTTask(WEIGHTS, DEVIATION, offset), batch(), output()
    found = task.metrics(said, task.prepare(given, CPU))
    assert len(found) == 3
    for sample, month in enumerate((0, 10, 11)):
        squares, products, own, other = [], [], [], []
        for lead in range(2):
            kelvin = DEVIATION[(month + offset + 1 + lead) % 12]
            f, o = (x[sample, lead].numpy() * kelvin for x in (said, given["future"]))
            squares.append((WEIGHTS * (f - o) ** 2).sum())
            products.append((WEIGHTS * f * o).sum())
            own.append((WEIGHTS * f * f).sum())
            other.append((WEIGHTS * o * o).sum())
        assert found[sample]["rmse"] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-5)
        correlation = np.sum(products) / np.sqrt(np.sum(own) * np.sum(other))
        assert found[sample]["acc"] == pytest.approx(correlation, rel=1e-4)


def test_a_forecast_without_anomalies_has_no_correlation():
    task, given = SSTTask(WEIGHTS, DEVIATION), batch()
    assert [x["acc"] for x in task.metrics(torch.zeros(3, 2, 2, 3), given)] == [0, 0, 0]


def test_the_task_is_that_of_the_store(store):
    task = SSTTask.of_store(store)
    given = {
        "past": torch.zeros(1, 2, 10, 20),
        "future": torch.zeros(1, 1, 10, 20),
        "month": torch.tensor([11]),
    }
    # An error of one standard deviation everywhere: the weighted mean of January's variances.
    (found,) = task.metrics(torch.ones(1, 1, 10, 20), given)
    rows = np.cos(np.deg2rad(store.grid.latitudes))[:, None] * store.fields["sea"].values
    expected = np.sqrt(
        (rows / rows.sum() * store.fields["deviation"].values[0].astype(np.float64) ** 2).sum()
    )
    assert found["rmse"] == pytest.approx(expected, rel=1e-5)
