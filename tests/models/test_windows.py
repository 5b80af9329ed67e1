"""Windows of a map."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.models.windows import Windows, windows_of


def windows(size, window, *, shifted: bool = False, mutual: bool = False) -> Windows:
    return windows_of(torch.zeros(2, *size, 1), window, shifted=shifted, mutual=mutual)


def test_a_window_as_long_as_the_map_is_clipped_and_not_shifted() -> None:
    found = windows((5, 16, 8), (6, 8, 8), shifted=True)
    assert found.window == (5, 8, 8)
    assert found.padded == (5, 16, 8)
    assert set(found.positions[:, 0, 0].tolist()) == {4 * 8, 12 * 8}


def test_maps_are_padded_at_the_end_to_multiples_of_the_window() -> None:
    found = windows((5, 9, 20), (2, 8, 8), mutual=True)
    assert found.padded == (6, 16, 24)
    x = torch.ones(2, 5, 9, 20, 3)
    assert found.partition(x).shape == (3 * 2 * 3, 2, 2 * 8 * 8, 3)
    assert found.partition(x).sum() == x.sum()


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_windows_of_all_clips_make_the_map_again(mutual: bool, shifted: bool) -> None:
    found = windows((5, 11, 8), (2, 4, 4), shifted=shifted, mutual=mutual)
    x = torch.randn(2, 5, 11, 8, 3)
    assert torch.equal(found.merge(found.partition(x)), x)
    assert torch.equal(found.positions.flatten().sort().values, torch.arange(2 * 6 * 12 * 8))
    assert sum(found.counts) == len(found.positions)


def test_there_are_at_most_eight_masks() -> None:
    found = windows((12, 40, 32), (2, 4, 4), shifted=True)
    assert found.masks.shape == (8, 32, 32)
    assert not found.masks[0].any()
    assert len(torch.unique(found.masks, dim=0)) == 8


def test_windows_are_cached_except_in_tracing() -> None:
    with FakeTensorMode():
        windows((2, 8, 8), (2, 4, 4), shifted=True)
    found = windows((2, 8, 8), (2, 4, 4), shifted=True)
    assert type(found.positions) is torch.Tensor
    assert windows((2, 8, 8), (2, 4, 4), shifted=True) is found
    assert windows((2, 8, 8), (2, 4, 4)) is not found
