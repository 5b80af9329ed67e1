from __future__ import annotations

import torch
from torch import nn

from tests.training.forecast import Forecaster
from tests.training.setup_run import forecast_settings, train


def test_a_run_compiles_what_its_compiler_says(tmp_path):
    asked = []

    def compile_outlet(model: nn.Module, mode: str) -> None:
        asked.append(mode)
        # A backend that needs no C++ compiler.
        model.outlet.compile(backend="aot_eager")

    results = []
    for name, compiled in (("eager", False), ("compiled", True)):
        torch.manual_seed(7)
        model = Forecaster()
        wanted = {"MAX_STEPS": 5, "COMPILE_MODEL": compiled, "COMPILE_MODE": "max-autotune"}
        settings = forecast_settings(wanted)
        train(tmp_path / name, settings, model=lambda model=model: model, compiler=compile_outlet)
        results.append(model.state_dict())
    assert asked == ["max-autotune"]
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value, rtol=1e-3, atol=1e-4)
