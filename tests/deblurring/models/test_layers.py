"""Small layers against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from vrtspike.deblurring.models.layers import (
    GEGLU,
    KEPT,
    Branch,
    ClipConv,
    DepthToSpace,
    DropPath,
    FrameConv,
    SpaceToDepth,
    draw_branches,
    skip_branch,
)
from vrtspike.host_draws import DrawTable, drawing_from

CPU = torch.device("cpu")


def test_space_to_depth_orders_neighbours_by_column_then_row() -> None:
    x = torch.arange(8.0).view(1, 1, 2, 2, 2)  # (row, column, channel)
    stacked = SpaceToDepth()(x)
    assert stacked.flatten().tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert torch.equal(DepthToSpace()(stacked), x)


def test_geglu_by_hand() -> None:
    layer = GEGLU(3, 4, 2)
    x = torch.randn(5, 3)
    expected = layer.fc2(functional.gelu(layer.fc11(x)) * layer.fc12(x))
    torch.testing.assert_close(layer(x), expected)
    assert layer(x).shape == (5, 2)


@pytest.mark.parametrize("frames", [1, 2, 5])
@pytest.mark.parametrize("stride", [(1, 1), (1, 2), (2, 2)])
def test_clip_conv_is_a_three_dimensional_convolution(frames: int, stride: tuple[int, int]) -> None:
    layer = ClipConv(3, 4, *stride).double()
    x = torch.randn(2, frames, 6, 5, 3, dtype=torch.float64)
    expected = functional.conv3d(
        x.permute(0, 4, 1, 2, 3), layer.weight, layer.bias, layer.stride, padding=1
    )
    torch.testing.assert_close(layer(x), expected.permute(0, 2, 3, 4, 1))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_gradients_of_a_clip_conv_are_those_of_a_three_dimensional_one(
    frames: int, bias: bool
) -> None:
    torch.manual_seed(0)
    layer = ClipConv(3, 4).double()
    if not bias:
        layer.bias = None
    x = torch.randn(2, frames, 6, 5, 3, dtype=torch.float64, requires_grad=True)
    whole = functional.conv3d(x.permute(0, 4, 1, 2, 3), layer.weight, layer.bias, padding=1)
    leaves = [x, *layer.parameters()]
    found, expected = layer(x), whole.permute(0, 2, 3, 4, 1)
    torch.testing.assert_close(found, expected)
    grad = torch.randn(found.shape, dtype=torch.float64)
    for ours, theirs in zip(
        torch.autograd.grad(found, leaves, grad),
        torch.autograd.grad(expected, leaves, grad),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_frame_conv_is_a_convolution_of_every_frame() -> None:
    layer = FrameConv(3, 4).double()
    x = torch.randn(2, 3, 6, 5, 3, dtype=torch.float64)
    expected = functional.conv3d(
        x.permute(0, 4, 1, 2, 3), layer.weight, layer.bias, padding=(0, 1, 1)
    )
    torch.testing.assert_close(layer(x), expected.permute(0, 2, 3, 4, 1))


def test_drop_path_drops_whole_samples_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer = DropPath(0.25)
    factors = layer.draw(4000)
    assert factors.unique().tolist() == pytest.approx([0, 4 / 3])
    assert factors.mean().item() == pytest.approx(1.0, abs=0.03)
    branch = Branch(factors, False).scaled(torch.ones(4000, 2, 3))
    assert torch.equal(branch, factors.view(-1, 1, 1).expand(4000, 2, 3))


def test_branches_are_drawn_in_the_order_of_the_blocks() -> None:
    layers = [DropPath(0.0), DropPath(0.5), DropPath(0.4)]
    torch.manual_seed(3)
    expected = [layer.draw(2) for layer in layers[1:] for _ in range(2)]
    after = torch.rand(1)
    torch.manual_seed(3)
    first, *others = draw_branches(layers, torch.ones(2, 5))
    assert torch.equal(torch.rand(1), after)
    assert first == (KEPT, KEPT)
    found = [branch.factors for pair in others for branch in pair]
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True) if b is not None)


def test_a_branch_counts_as_dropped_when_no_sample_keeps_it() -> None:
    layer, x = DropPath(0.5), torch.ones(2, 1)
    seen = set()
    for seed in range(20):
        torch.manual_seed(seed)
        for branch in draw_branches([layer], x)[0]:
            assert branch.factors is not None
            kept = int((branch.factors > 0).sum())
            assert branch.is_dropped == (kept == 0)
            seen.add(kept)
    assert seen == {0, 1, 2}
    assert draw_branches([layer.eval()], x) == [(KEPT, KEPT)]


def test_a_recorded_pass_reads_the_factors_that_would_be_drawn() -> None:
    layers, x, table = [DropPath(0.5), DropPath(0.3)], torch.ones(3, 1), DrawTable(CPU)
    with drawing_from(table, nn.ModuleList(layers)):
        recorded = draw_branches(layers, x)
    torch.manual_seed(0)
    expected = draw_branches(layers, x)
    torch.manual_seed(0)
    table.redraw()
    for one, other in zip(recorded, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.factors is not None
            assert b.factors is not None
            assert torch.equal(a.factors, b.factors)
            assert not a.is_dropped


def test_a_branch_left_out_gives_its_parameters_gradients_of_zero() -> None:
    layers = [nn.Linear(3, 2), nn.LayerNorm(4)]
    frozen = nn.Linear(2, 2).requires_grad_(False)
    x = torch.randn(5, requires_grad=True)
    out = skip_branch(x, *layers, frozen)
    assert torch.equal(out, x)
    (2 * out).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2] * 5
    for layer in layers:
        for parameter in layer.parameters():
            assert parameter.grad is not None
            assert torch.equal(parameter.grad, torch.zeros_like(parameter))
    assert frozen.weight.grad is None
    with torch.no_grad():
        assert skip_branch(x, *layers) is x
