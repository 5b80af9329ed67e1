"""FLOPs of a sample against a count by hand; the peak of a device."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.forecast import FUTURE, PAST, SIZE, ForecastObjective, Waves
from tests.training.setup_run import ALONE, batches_of, forecast_settings
from vrtspike.training import flops
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.flops import estimate_flops, measure_peak
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.precision import Precision

KERNEL = 3
BATCH = 2
CPU = torch.device("cpu")


@pytest.fixture
def model() -> nn.Module:
    """A single convolution, with dropout that draws random numbers in training mode."""
    return nn.Sequential(nn.Dropout(0.5), nn.Conv2d(PAST, FUTURE, KERNEL, padding=1)).train()


def estimated(model: nn.Module, ranks: DistributedContext = ALONE) -> flops.FlopEstimate:
    batches = batches_of(Waves(4), BATCH)
    parts = TrainingParts(model, ForecastObjective(), batches, None)
    batch = next(batches.stream(0, 1, 1))
    return estimate_flops(parts, batch, Precision(forecast_settings().TRAIN, CPU), ranks)


def test_a_sample_counts_forward_and_backward_of_its_products(model, monkeypatch):
    monkeypatch.setattr(flops, "measure_peak", lambda device, dtype: 7.0)
    result = estimated(model)
    multiplications = SIZE * SIZE * FUTURE * PAST * KERNEL**2
    # Two operations per multiplication and addition; the backward pass takes twice the forward's.
    assert result.flops_per_sample == 3 * 2 * multiplications
    assert result.peak_flops_per_second == 7.0


def test_the_peak_is_that_of_all_devices(model, monkeypatch):
    monkeypatch.setattr(flops, "measure_peak", lambda device, dtype: 7.0)
    four = DistributedContext(0, 0, 4, 4, CPU)
    assert estimated(model, four).peak_flops_per_second == 28.0


def test_the_estimate_changes_no_state(model, monkeypatch):
    monkeypatch.setattr(flops, "measure_peak", lambda device, dtype: 7.0)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    estimated(model)
    assert torch.equal(torch.rand(2), expected)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_peak_is_the_fastest_of_several_products(monkeypatch):
    times = iter([4.0, 0.5, 2.0, 3.0, 1.0])
    products = []

    def seconds(device, work):
        products.append(work())
        return next(times)

    monkeypatch.setattr(flops, "time_call", seconds)
    monkeypatch.setattr(flops, "MATRIX_SIZES", {"cpu": 8})
    # A product of 8 x 8 matrices takes 2 x 8^3 operations.
    assert measure_peak(CPU, torch.bfloat16) == 1024 / 0.5
    assert {(product.shape, product.dtype) for product in products} == {((8, 8), torch.bfloat16)}
