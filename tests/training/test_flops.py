"""Operations of a sample, and what the devices of a run could do together."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import default_collate

from tests.training.forecast import Forecaster, ForecastTask, Waves
from vrtspike.config.train_schema import TrainSettings
from vrtspike.training import flops
from vrtspike.training.distributed import Ranks
from vrtspike.training.precision import Precision

CPU = torch.device("cpu")


@pytest.mark.parametrize("training", [True, False])
def test_a_sample_costs_the_same_in_any_batch_and_devices_add_up(monkeypatch, training):
    # The machine's own speed is measured, and different every time.
    monkeypatch.setattr(flops, "measure_peak", lambda device, dtype: 1e12)
    model = Forecaster().train(training)
    precision = Precision(TrainSettings(PRECISION="32"), CPU)
    products = 9 * 16 * 16 * (3 * 8 + 8 * 8 + 8 * 2)
    for size, world in ((1, 1), (3, 4)):
        batch = default_collate([Waves(3)[index] for index in range(size)])
        ranks = Ranks(0, 0, world, world, CPU)
        found = flops.estimate_arithmetic(model, ForecastTask(), batch, precision, ranks)
        # A multiplication and an addition; forward and twice as much backward.
        assert found.flops_per_sample == 3 * 2 * products
        assert found.peak_flops_per_second == world * 1e12
        assert model.training is training
