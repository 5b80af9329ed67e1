"""The counted memory of a step against what can be computed by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vrtspike.monitoring.step_memory import working_bytes


def two_layers() -> nn.Module:
    """Two linear layers of 8 inputs and outputs with a sigmoid between them."""
    return nn.Sequential(nn.Linear(8, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 8, bias=False))


def test_a_step_holds_its_batch_and_what_the_backward_pass_needs() -> None:
    layers, x = two_layers(), torch.ones(5, 8)
    # The input, the sigmoid's result and its gradient, the loss and its gradient at least.
    assert working_bytes(layers, (x,), lambda: layers(x).sum()) >= 3 * 4 * 5 * 8 + 8


def test_recomputation_needs_memory_for_one_block_at_a_time() -> None:
    blocks = nn.Sequential(*(two_layers() for _ in range(8)))
    x = torch.ones(5, 8, requires_grad=True)

    def loss() -> Tensor:
        result = x
        for block in blocks:
            result = checkpoint(block, result, use_reentrant=False)
        return result.sum()

    peak = working_bytes(blocks, (x,), loss)
    rows = 4 * 5 * 8
    # The input of each block and the loss; of one block at a time two results of the forward pass,
    # their gradients and two of weights.
    assert 8 * rows < peak <= 8 * rows + 4 + 4 * rows + 2 * 4 * 64
