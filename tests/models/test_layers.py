"""Small layers against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from vrtspike.models.layers import (
    GEGLU,
    ClipConv,
    DepthToSpace,
    DropPath,
    FrameConv,
    SpaceToDepth,
)


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
    y = layer(torch.ones(4000, 2, 3))
    per_sample = y.flatten(1)
    assert torch.equal(per_sample.min(1).values, per_sample.max(1).values)
    assert y.mean().item() == pytest.approx(1.0, abs=0.03)
    assert torch.equal(layer.eval()(torch.ones(4, 2)), torch.ones(4, 2))
