"""Compilation of a model by its own method."""

from __future__ import annotations

import torch

from tests.training.forecast import Forecaster
from tests.training.setup_run import forecast_settings, train


class PartlyCompiled(Forecaster):
    """Compiles its outlet, with a backend that needs no C++ compiler."""

    def compile(self, *, mode: str) -> None:
        self.mode = mode
        self.outlet.compile(backend="aot_eager")


def test_a_run_calls_the_compile_method_of_its_model(tmp_path):
    models = []
    for compiled in (False, True):
        torch.manual_seed(7)
        model = PartlyCompiled()
        wanted = {"MAX_STEPS": 5, "COMPILE_MODEL": compiled, "COMPILE_MODE": "max-autotune"}
        settings = forecast_settings(wanted)
        train(tmp_path / str(compiled), settings, model=lambda model=model: model)
        models.append(model)
    assert [vars(model).get("mode") for model in models] == [None, "max-autotune"]
    for expected, result in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-4)
