"""Small layers against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.models.checks import assert_same
from vrtspike.models.layers import (
    GEGLU,
    Conv3dAs2d,
    DepthToSpace,
    DropPath,
    FrameConv2d,
    SpaceToDepth,
    pad_to_multiple,
)


def test_space_to_depth_orders_neighbours_by_column_then_row() -> None:
    x = torch.arange(8.0).view(1, 1, 2, 2, 2)  # (row, column, channel)
    stacked = SpaceToDepth()(x)
    assert stacked.flatten().tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert torch.equal(DepthToSpace()(stacked), x)


@pytest.mark.parametrize("frames", [1, 2, 5])
@pytest.mark.parametrize(
    "layer",
    [Conv3dAs2d(3, 4), Conv3dAs2d(3, 4, 2), FrameConv2d(3, 4)],
    ids=lambda layer: f"{type(layer).__name__}-{layer.stride}",
)
def test_convolutions_are_three_dimensional_ones(layer: nn.Conv3d, frames: int) -> None:
    torch.manual_seed(0)
    layer = layer.double()
    x = torch.randn(2, frames, 6, 5, 3, dtype=torch.float64, requires_grad=True)
    expected = nn.Conv3d.forward(layer, x.permute(0, 4, 1, 2, 3)).permute(0, 2, 3, 4, 1)
    assert_same([layer(x)], [expected], [x, *layer.parameters()])


def test_geglu_gates_one_projection_by_the_other() -> None:
    torch.manual_seed(0)
    layer, x = GEGLU(3, 5, 4), torch.randn(2, 3)
    hidden = functional.gelu(layer.fc11(x)) * layer.fc12(x)
    torch.testing.assert_close(layer(x), layer.fc2(hidden))


def test_whole_samples_are_dropped_in_training_and_the_mean_stays() -> None:
    torch.manual_seed(0)
    layer, x = DropPath(0.25), torch.ones(4000, 2, 3)
    result = layer(x)
    assert set(result.flatten().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert torch.equal(result, result[:, :1, :1].expand_as(result))
    # Three standard deviations.
    assert abs(result.mean().item() - 1) < 3 * (0.25 / 0.75 / 4000) ** 0.5
    assert layer.eval()(x) is x
    assert DropPath(0.0)(x) is x


def test_padding_reflects_without_repeating_the_border() -> None:
    x = torch.arange(5.0).view(1, 1, 1, 5).expand(1, 1, 8, 5)
    assert pad_to_multiple(x, 8)[0, 0, 0].tolist() == [0, 1, 2, 3, 4, 3, 2, 1]
    assert pad_to_multiple(x[..., :1], 4)[0, 0, 0].tolist() == [0, 0, 0, 0]
    assert pad_to_multiple(x[..., :2], 8)[0, 0, 0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    tall = torch.arange(5.0).view(1, 5, 1).expand(1, 5, 8)
    assert pad_to_multiple(tall, 8)[0, :, 0].tolist() == [0, 1, 2, 3, 4, 3, 2, 1]
    whole = torch.rand(2, 8, 16)
    assert pad_to_multiple(whole, 8) is whole
