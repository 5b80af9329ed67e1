"""The counted cost of a step against what can be computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vrtspike.monitoring.step_cost import count_step


def two_layers(*, again: bool) -> tuple[nn.Module, Tensor]:
    """Two linear layers of 8 inputs and outputs with a sigmoid between them, and 5 rows."""
    layers = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 8, bias=False))
    return layers, torch.ones(5, 8, requires_grad=again)


@pytest.mark.parametrize("again", [False, True])
def test_two_linear_layers_by_hand(again: bool) -> None:
    layers, x = two_layers(again=again)

    def loss() -> Tensor:
        result = checkpoint(layers, x, use_reentrant=False) if again else layers(x)
        return result.sum()

    cost = count_step(layers, (x,), loss)
    product, rows = 2 * 5 * 8 * 8, 4 * 5 * 8
    assert cost.forward_flop == 2 * product
    # Gradients of two weights and of the sigmoid's result; with x learned that of x, and the
    # first layer of what is computed again at least: PyTorch stops when all it needs is there.
    if again:
        assert cost.flop >= 2 * product + 4 * product + product
    else:
        assert cost.flop == 2 * product + 3 * product
    # The input, the sigmoid's result and its gradient, the loss and its gradient at least.
    assert cost.peak_bytes >= 3 * rows + 8


def test_recomputation_needs_memory_for_one_block_at_a_time() -> None:
    blocks = nn.Sequential(*(two_layers(again=False)[0] for _ in range(8)))
    x = torch.ones(5, 8, requires_grad=True)

    def loss() -> Tensor:
        result = x
        for block in blocks:
            result = checkpoint(block, result, use_reentrant=False)
        return result.sum()

    cost = count_step(blocks, (x,), loss)
    rows = 4 * 5 * 8
    # The input of each block and the loss; of one block at a time two results of the forward pass,
    # their gradients and two of weights.
    assert 8 * rows < cost.peak_bytes <= 8 * rows + 4 + 4 * rows + 2 * 4 * 64


def test_a_depthwise_convolution_has_equal_arithmetic_for_each_gradient() -> None:
    layer = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
    x = torch.ones(1, 6, 10, 10, requires_grad=True)
    cost = count_step(layer, (x,), lambda: layer(x).sum())
    assert cost.forward_flop == 2 * 6 * 9 * 100
    assert cost.flop == 3 * cost.forward_flop
