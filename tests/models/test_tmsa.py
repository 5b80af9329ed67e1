"""Transformer blocks: their branches, and the order of windows in a group."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.models.checks import assert_same
from vrtspike.deblurring_settings.model import VRTSettings
from vrtspike.models.stages import TMSABlock, TMSAGroup
from vrtspike.models.windows import windows_of


def group_of(*drop_paths: float) -> TMSAGroup:
    torch.manual_seed(0)
    return TMSAGroup(8, (2, 4, 4), drop_paths, VRTSettings(NUM_HEADS=2), mutual=True).double()


def features() -> Tensor:
    return torch.randn(2, 3, 5, 6, 8, dtype=torch.double)


def test_every_second_block_has_shifted_windows() -> None:
    group, x = group_of(0.0, 0.0), features()
    expected = x
    for number, block in enumerate(group.blocks):
        expected = block(
            expected, windows_of(x, (2, 4, 4), shifted=number == 1, mutual=True), group.index
        )
    assert torch.equal(group(x), expected)


def test_a_block_adds_both_branches_recomputed_or_not() -> None:
    group, x = group_of(0.5), features().requires_grad_()
    block = group.blocks[0]
    assert isinstance(block, TMSABlock)
    windows = windows_of(x, (2, 4, 4), shifted=False, mutual=True), group.index
    for again in (False, True):
        torch.manual_seed(1)
        middle = x + block.drop_path(block.attn(block.norm1(x), *windows))
        expected = middle + block.drop_path(block.mlp(block.norm2(middle)))
        block.recompute = again
        torch.manual_seed(1)
        assert_same([block(x, *windows)], [expected], [x, *block.parameters()])


def test_a_dropped_sample_is_unchanged_and_all_parameters_have_gradients() -> None:
    group, x = group_of(1 - 1e-12), features().requires_grad_()
    block = group.blocks[0]
    out = block(x, windows_of(x, (2, 4, 4), shifted=True, mutual=True), group.index)
    assert torch.equal(out, x)
    grad = torch.randn_like(x)
    out.backward(grad)
    assert x.grad is not None
    assert torch.equal(x.grad, grad)
    # Processes of a run exchange those of all parameters, whatever each of them drops.
    for name, parameter in block.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name
