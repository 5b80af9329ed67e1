"""Window geometry."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.deblurring.models.windows import build_plan, clip_window, plan_for

CPU = torch.device("cpu")


def test_a_window_as_long_as_the_map_is_clipped_and_not_shifted() -> None:
    geometry = clip_window((5, 16, 8), (6, 8, 8), shifted=True, mutual=False)
    assert geometry.window == (5, 8, 8)
    assert geometry.shift == (0, 4, 0)
    assert geometry.padded == (5, 16, 8)


def test_maps_are_padded_at_the_end_to_multiples_of_the_window() -> None:
    geometry = clip_window((5, 9, 20), (2, 8, 8), shifted=False, mutual=True)
    assert geometry.padded == (6, 16, 24)
    x = torch.nn.functional.pad(torch.ones(1, 5, 9, 20, 3), geometry.pad)
    assert x.shape == (1, 6, 16, 24, 3)
    assert x[:, :5, :9, :20].min() == 1


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_every_token_takes_part_once_in_every_role(mutual: bool, shifted: bool) -> None:
    plan = build_plan(clip_window((6, 12, 8), (2, 4, 4), shifted=shifted, mutual=mutual), CPU)
    everyone = torch.arange(6 * 12 * 8)
    for role in (plan.query, plan.key, plan.out):
        assert torch.equal(role.flatten().sort().values, everyone)
    assert plan.bounds[-1] == plan.query.shape[0]


def test_there_are_at_most_eight_masks() -> None:
    plan = build_plan(clip_window((12, 40, 32), (2, 4, 4), shifted=True, mutual=False), CPU)
    assert plan.masks.shape == (8, 32, 32)
    assert not plan.masks[0].any()
    assert len(torch.unique(plan.masks, dim=0)) == 8


def test_a_plan_is_built_once_and_without_data_is_not_kept() -> None:
    x = torch.zeros(1)
    geometry = clip_window((2, 8, 8), (2, 4, 4), shifted=True, mutual=False)
    with FakeTensorMode():
        plan_for(geometry, torch.zeros(1))
    plan = plan_for(geometry, x)
    assert type(plan.query) is torch.Tensor
    assert plan_for(geometry, x) is plan
    assert plan_for(clip_window((2, 8, 8), (2, 4, 4), shifted=False, mutual=False), x) is not plan
