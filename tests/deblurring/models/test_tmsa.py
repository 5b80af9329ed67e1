"""Transformer blocks: factors of their branches, and how they run by kernels."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn

from tests.deblurring.models.checks import assert_same, run_check
from vrtspike.deblurring.models.ops.dispatch import REFERENCE, Compute
from vrtspike.deblurring.models.ops.window_attention.windows import PlanCache
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup

POLICIES = pytest.mark.parametrize("compute", [REFERENCE, Compute(recompute="cheap")])


def group_of(compute: Compute) -> TMSAGroup:
    torch.manual_seed(0)
    return TMSAGroup(
        8, (2, 4, 4), 2, 2, mutual=True, mlp_ratio=2.0, compute=compute, plans=PlanCache()
    ).double()


def features() -> Tensor:
    return torch.randn(2, 3, 5, 6, 8, dtype=torch.double)


@POLICIES
@pytest.mark.parametrize("again", [False, True])
def test_factors_multiply_branches(compute: Compute, again: bool) -> None:
    group = group_of(compute)
    block, x = group.blocks[0], features().requires_grad_()
    assert isinstance(block, TMSABlock)
    block.checkpoint = again
    windows = group.windows(x, shifted=False)
    keep = torch.tensor([[0.0, 1.25], [2.0, 0.5]])
    attended, fed = (factors.view(2, 1, 1, 1, 1) for factors in keep)
    middle = x + attended * (block.attn(x, block.norm1, windows, None) - x)
    expected = middle + fed * (block.mlp(middle, block.norm2) - middle)
    assert_same([block(x, windows, keep)], [expected], [x, *block.parameters()])


@POLICIES
def test_a_dropped_sample_is_unchanged_and_all_parameters_have_gradients(
    compute: Compute,
) -> None:
    group = group_of(compute)
    block, x = group.blocks[0], features().requires_grad_()
    windows = group.windows(x, shifted=True)
    out = block(x, windows, torch.zeros(2, 2))
    assert torch.equal(out, x)
    grad = torch.randn_like(x)
    out.backward(grad)
    assert torch.equal(x.grad, grad)
    # Processes of a run exchange those of all parameters, whatever each of them drops.
    for name, parameter in block.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_each_block_has_its_own_factors() -> None:
    group, linear, x = group_of(REFERENCE), nn.Linear(8, 8).double(), features()
    keep = torch.tensor([[[1.0, 0.0], [0.5, 1.0]], [[2.0, 1.0], [0.0, 3.0]]])
    out = x
    for number, block in enumerate(group.blocks):
        out = block(out, group.windows(x, shifted=number == 1), keep[number])
    torch.testing.assert_close(group(x, linear, keep), x + linear(out))


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_kernels_in_the_interpreter() -> None:
    run_check("layers_check.py")
