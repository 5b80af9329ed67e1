"""Errors of trainings whose numbers are no longer finite."""

from __future__ import annotations

import pytest

from tests.training.forecast import ForecastObjective
from tests.training.setup_run import forecast_settings, records, train
from vrtspike.system.errors import RunError


class SpoiledObjective(ForecastObjective):
    """Losses that are not finite in some micro-batches."""

    def __init__(self, spoiled: range) -> None:
        super().__init__()
        self._spoiled = spoiled

    def losses(self, output, batch, step):
        factor = float("nan") if step in self._spoiled else 1.0
        return {"mse": factor * super().losses(output, batch, step)["mse"]}


def test_a_run_that_never_recovers_stops_with_advice(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 100})
    with pytest.raises(RunError) as raised:
        train(tmp_path, settings, objective=SpoiledObjective(range(5, 100)))
    assert records(tmp_path)[-1]["step"] == 5 + 20
    message = str(raised.value)
    assert message.startswith("step 25, learning rate 0.00")
    assert "nothing is learned since step 6" in message
    assert "lower TRAIN.OPTIM.LR (now 0.01)" in message
    assert "lower TRAIN.MAX_GRAD_NORM (now 1)" in message
    assert "TRAIN.PRECISION" not in message


def test_advice_on_divergence_depends_on_the_precision(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 30, "PRECISION": "bf16-true", "MAX_GRAD_NORM": None})
    with pytest.raises(RunError) as raised:
        train(tmp_path, settings, objective=SpoiledObjective(range(100)))
    assert "set TRAIN.MAX_GRAD_NORM (now null)" in str(raised.value)
    assert "set TRAIN.PRECISION to bf16-mixed or 32 (now bf16-true)" in str(raised.value)


class OverflowingObjective(ForecastObjective):
    """Outputs that are not finite in validation."""

    def forward(self, model, batch):
        output = super().forward(model, batch)
        return output if model.training else output / 0


def test_a_model_that_diverged_is_named_with_step_and_rate(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 8})
    with pytest.raises(RunError, match=r"step \d+, learning rate \d.*diverged.*TRAIN\.OPTIM\.LR"):
        train(tmp_path, settings, objective=OverflowingObjective())
