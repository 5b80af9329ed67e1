from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from vrtspike.config.train_schema import ScheduleSettings
from vrtspike.training.schedules import Schedule, cosine_factor


def test_warm_up_then_cosine_to_the_floor():
    factors = [cosine_factor(step, 101, 10, 0.1) for step in range(101)]
    assert factors[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert factors[10] == 1.0
    assert factors[55] == pytest.approx(0.55)
    assert factors[100] == pytest.approx(0.1)
    assert all(a > b for a, b in pairwise(factors[10:]))


@pytest.mark.parametrize(("total", "warmup"), [(1, 0), (1, 10), (5, 5), (5, 100), (2, 1)])
def test_short_runs_have_positive_rates(total, warmup):
    factors = [cosine_factor(step, total, warmup, 0.01) for step in range(total)]
    assert all(0 < factor <= 1 for factor in factors)


def test_rates_of_groups_keep_their_ratio_and_end_at_min_lr():
    groups = [{"params": [torch.zeros(1)], "lr": 5e-5}, {"params": [torch.zeros(1)], "lr": 2e-4}]
    optimizer = torch.optim.AdamW(groups)
    settings = ScheduleSettings(WARMUP_STEPS=4, MIN_LR=1e-6)
    schedule = Schedule(optimizer, settings, 2e-4, total=20)
    for step in range(20):
        rate = schedule.apply(step)
        slow, fast = (group["lr"] for group in optimizer.param_groups)
        assert fast == rate
        assert slow == pytest.approx(rate / 4)
    assert rate == pytest.approx(1e-6)
    # The rate is a function of the step alone: going back gives the same again.
    assert schedule.apply(3) == 2e-4
