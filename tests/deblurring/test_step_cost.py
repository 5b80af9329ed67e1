"""The counted cost of a step against what can be computed by hand, and against a real step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vrtspike.config.loading import load_preset
from vrtspike.deblurring.costs import state_bytes
from vrtspike.deblurring.step_cost import count_step

PRESETS = Path(__file__).resolve().parents[2] / "config/presets"


def two_layers(*, again: bool) -> tuple[nn.Module, Tensor]:
    """Two linear layers of 8 inputs and outputs with a sigmoid between them, and 5 rows."""
    layers = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 8, bias=False))
    for parameter in layers.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return layers, torch.ones(5, 8, requires_grad=again)


@pytest.mark.parametrize("again", [False, True])
def test_two_linear_layers_by_hand(again: bool) -> None:
    layers, x = two_layers(again=again)

    def loss() -> Tensor:
        found = checkpoint(layers, x, use_reentrant=False) if again else layers(x)
        return found.sum()

    cost = count_step(layers, (x,), loss)
    product, rows = 2 * 5 * 8 * 8, 4 * 5 * 8
    assert cost.forward_flop == 2 * product
    # Gradients of two weights and of the sigmoid's result; with x learned that of x, and the
    # first layer of what is computed again at least: PyTorch stops when all it needs is there.
    if again:
        assert cost.flop >= 2 * product + 4 * product + product
    else:
        assert cost.flop == 2 * product + 3 * product
    # Kept: the input, the sigmoid's result if it is not computed again, and the loss.
    assert cost.kept == rows + (0 if again else rows) + 4
    assert cost.state == 2 * 2 * 4 * 64


def test_a_depthwise_convolution_has_equal_arithmetic_for_each_gradient() -> None:
    layer = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
    layer.weight.grad = torch.zeros_like(layer.weight)
    x = torch.ones(1, 6, 10, 10, requires_grad=True)
    cost = count_step(layer, (x,), lambda: layer(x).sum())
    assert cost.forward_flop == 2 * 6 * 9 * 100
    assert cost.flop == 3 * cost.forward_flop


@pytest.mark.parametrize(
    ("overrides", "bytes_each"),
    [
        ([], 16),
        (["TRAIN.OPTIM.TYPE=adamw8bit"], 10),
        (["TRAIN.EMA=0.999"], 20),
    ],
)
def test_bytes_of_the_state_for_each_parameter(overrides: list[str], bytes_each: int) -> None:
    settings = load_preset(PRESETS / "baseline.yaml", overrides)
    assert state_bytes(1000, settings) == 1000 * bytes_each
