"""Small layers against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.deblurring.models.checks import assert_same
from vrtspike.deblurring.models.layers import (
    ClipConv,
    DepthToSpace,
    FrameConv,
    SpaceToDepth,
)


def test_space_to_depth_orders_neighbours_by_column_then_row() -> None:
    x = torch.arange(8.0).view(1, 1, 2, 2, 2)  # (row, column, channel)
    stacked = SpaceToDepth()(x)
    assert stacked.flatten().tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert torch.equal(DepthToSpace()(stacked), x)


@pytest.mark.parametrize("frames", [1, 2, 5])
@pytest.mark.parametrize(
    "layer",
    [ClipConv(3, 4), ClipConv(3, 4, 1, 2), ClipConv(3, 4, 2, 2), FrameConv(3, 4)],
    ids=lambda layer: f"{type(layer).__name__}-{layer.stride}",
)
def test_convolutions_are_three_dimensional_ones(layer: nn.Conv3d, frames: int) -> None:
    torch.manual_seed(0)
    layer = layer.double()
    x = torch.randn(2, frames, 6, 5, 3, dtype=torch.float64, requires_grad=True)
    expected = nn.Conv3d.forward(layer, x.permute(0, 4, 1, 2, 3)).permute(0, 2, 3, 4, 1)
    assert_same([layer(x)], [expected], [x, *layer.parameters()])
