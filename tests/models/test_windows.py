"""Windows of a map."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.models.windows import WindowPartition, windows_of


def windows(size, window, *, shifted: bool = False, mutual: bool = False) -> WindowPartition:
    return windows_of(torch.zeros(2, *size, 1), window, shifted=shifted, mutual=mutual)


def test_a_window_as_long_as_the_map_is_clipped_and_not_shifted() -> None:
    result = windows((5, 16, 8), (6, 8, 8), shifted=True)
    assert result.window == (5, 8, 8)
    assert result.padded == (5, 16, 8)
    assert set(result.positions[:, 0, 0].tolist()) == {4 * 8, 12 * 8}


def test_maps_are_padded_at_the_end_to_multiples_of_the_window() -> None:
    result = windows((5, 9, 20), (2, 8, 8), mutual=True)
    assert result.padded == (6, 16, 24)
    x = torch.ones(2, 5, 9, 20, 3)
    assert result.partition(x).shape == (3 * 2 * 3, 2, 2 * 8 * 8, 3)
    assert result.partition(x).sum() == x.sum()


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_windows_of_all_clips_make_the_map_again(mutual: bool, shifted: bool) -> None:
    result = windows((5, 11, 8), (2, 4, 4), shifted=shifted, mutual=mutual)
    x = torch.randn(2, 5, 11, 8, 3)
    assert torch.equal(result.merge(result.partition(x)), x)
    assert torch.equal(result.positions.flatten().sort().values, torch.arange(2 * 6 * 12 * 8))
    assert sum(result.counts) == len(result.positions)


def test_there_are_at_most_eight_masks() -> None:
    result = windows((12, 40, 32), (2, 4, 4), shifted=True)
    assert result.masks.shape == (8, 32, 32)
    assert not result.masks[0].any()
    assert len(torch.unique(result.masks, dim=0)) == 8


def test_the_first_mask_is_zero_even_if_no_window_has_it() -> None:
    # A single frame is paired with a frame of zeros: every window has a mask.
    result = windows((1, 8, 8), (2, 4, 4), mutual=True)
    assert result.counts == (0, 4)
    assert not result.masks[0].any()
    assert result.masks[1].any()


def test_windows_are_cached_except_in_tracing() -> None:
    with FakeTensorMode():
        windows((2, 8, 8), (2, 4, 4), shifted=True)
    result = windows((2, 8, 8), (2, 4, 4), shifted=True)
    assert type(result.positions) is torch.Tensor
    assert windows((2, 8, 8), (2, 4, 4), shifted=True) is result
    assert windows((2, 8, 8), (2, 4, 4)) is not result
