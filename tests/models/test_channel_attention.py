"""Channel attention: means of windows by hand, and how far it reaches."""

from __future__ import annotations

import pytest
import torch

from vrtspike.models.channel_attention import ChannelAttention, local_mean


@pytest.mark.parametrize("size", [(11, 8), (12, 9)])
def test_local_means_are_those_of_windows_of_three_by_three_cells(size):
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    means = local_mean(x, 3)
    assert means.shape == (2, 3, 4, 3)
    for row in range(4):
        for column in range(3):
            rows = slice(max(3 * row - 3, 0), 3 * row + 6)
            columns = slice(max(3 * column - 3, 0), 3 * column + 6)
            expected = x[:, :, rows, columns].mean(dim=(2, 3))
            torch.testing.assert_close(means[:, :, row, column], expected)


@pytest.mark.parametrize("size", [(12, 11), (5, 3), (12, 6)])
def test_attention_to_cells_is_that_to_the_whole_of_a_crop_of_two_cells(size):
    whole, local = ChannelAttention(4), ChannelAttention(4, cell=6)
    local.load_state_dict(whole.state_dict())
    crop = torch.randn(2, 4, *size)
    means = crop.mean(dim=(2, 3), keepdim=True)
    windows = local_mean(crop, 6)
    torch.testing.assert_close(windows, means.expand_as(windows))
    assert torch.equal(local(crop), whole(crop))
    wide = torch.randn(2, 4, 12, 13)
    assert not torch.allclose(local(wide), whole(wide), atol=1e-4)


def test_attention_to_cells_does_not_reach_further_than_two_cells_and_a_half():
    attention = ChannelAttention(4, cell=4)
    x = torch.randn(1, 4, 8, 40)
    other = x.clone()
    other[..., 32:] += 1
    same = (attention(x) == attention(other)).all(dim=1)[0].all(dim=0)
    # Windows of the cells before 28 end at 32 at most; halves of the next cell are blended in.
    assert same[:22].all()
    assert not same[26:].any()
