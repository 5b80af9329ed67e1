"""Codes of positions in a window."""

from __future__ import annotations

import torch

from vrtspike.deblurring.models.attention import relative_position_index, sine_position_bias


def test_relative_position_index_by_hand() -> None:
    # Two tokens in a row: distances 0, -1, 1, 0, shifted by one.
    assert relative_position_index((1, 1, 2)).tolist() == [[1, 0], [2, 1]]
    index = relative_position_index((6, 8, 8))
    assert index.shape == (384, 384)
    assert index.max() == 11 * 15 * 15 - 1


def test_sine_position_bias() -> None:
    bias = sine_position_bias(8, 8, 24)
    assert bias.shape == (1, 64, 24)
    grid = bias.view(8, 8, 24)
    # The first half tells rows apart, the second columns.
    assert torch.equal(grid[:, 0, :12], grid[:, 5, :12])
    assert torch.equal(grid[0, :, 12:], grid[5, :, 12:])
