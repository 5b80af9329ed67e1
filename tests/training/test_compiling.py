from __future__ import annotations

import pytest
import torch
from torch import nn

from vrtspike.config.train_schema import TrainSettings
from vrtspike.training.compiling import compile_model


class Blocks(nn.Module):
    """Two blocks that it compiles itself, without a C++ compiler."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.modes: list[str] = []

    def compile_blocks(self, mode: str) -> None:
        self.modes.append(mode)
        for block in (self.first, self.second):
            block.compile(backend="aot_eager")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_a_model_compiles_its_own_blocks(mode):
    model = Blocks()
    train = TrainSettings(COMPILE_MODEL=True, COMPILE_MODE=mode)
    assert compile_model(model, train) is model
    assert model.modes == [mode]


def test_compiled_blocks_compute_and_learn_what_they_did():
    model, x = Blocks(), torch.randn(3, 4)
    model(x).sum().backward()
    expected, gradient = model(x), model.first.weight.grad.clone()
    model.zero_grad()
    compile_model(model, TrainSettings(COMPILE_MODEL=True))
    model(x).sum().backward()
    torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(model.first.weight.grad, gradient)


def test_nothing_is_compiled_unasked():
    model = Blocks()
    compile_model(model, TrainSettings())
    assert model.modes == []
