"""Optimisers and schedules: groups, 8-bit moments, warm-up and scaled rates."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.config.run_schema import OptimSettings, ScheduleSettings, TrainSettings
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.training.optimizers import (
    build_optimizer,
    cosine_factor,
    count_steps,
    parameter_groups,
    scaled_learning_rate,
    set_learning_rates,
    trainable_groups,
    warmup_steps,
)


@pytest.mark.parametrize(("kind", "expected"), [("none", 2e-4), ("sqrt", 4e-4), ("linear", 8e-4)])
def test_learning_rate_scales_with_the_global_batch(kind, expected):
    train = TrainSettings(BATCH_SIZE=3, SCALE_LR=kind, BASE_BATCH_SIZE=6)
    assert scaled_learning_rate(train, micro_batches=8) == pytest.approx(expected)


class Parts(nn.Module):
    """Three layers, some of which are groups."""

    def __init__(self, **groups: list[str]) -> None:
        super().__init__()
        self.flow, self.body, self.head = nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)
        self.groups = groups

    def lr_groups(self) -> dict[str, list[str]]:
        return self.groups


def test_a_factor_multiplies_the_rate_of_a_group_and_others_have_the_rate_itself():
    model = Parts(body=["body.weight", "body.bias"], flow=["flow.weight", "flow.bias"])
    groups = parameter_groups(trainable_groups(model), 1e-3, {"flow": 0.25, "others": 2.0})
    assert [(group["name"], group["lr"]) for group in groups] == [
        ("others", pytest.approx(2e-3)),
        ("body", pytest.approx(1e-3)),
        ("flow", pytest.approx(2.5e-4)),
    ]
    for group, layer in zip(groups, (model.head, model.body, model.flow), strict=True):
        assert [id(p) for p in group["params"]] == [id(p) for p in layer.parameters()]


@pytest.mark.parametrize(
    ("groups", "factors", "message"),
    [
        ({"flow": ["9.weight"]}, {}, r"9\.weight"),
        ({"flow": ["body.bias"], "new": ["body.bias"]}, {}, "more than one parameter group"),
        ({"flow": ["flow.weight"]}, {"head": 2.0}, "unknown parameter group 'head'; known: others"),
    ],
)
def test_wrong_groups_are_errors(groups, factors, message):
    with pytest.raises((KeyError, ValueError), match=message):
        torch.optim.AdamW(parameter_groups(trainable_groups(Parts(**groups)), 1e-3, factors))


def rates_of(model: nn.Module) -> list[dict[str, object]]:
    return parameter_groups(trainable_groups(model), 1e-3, {})


def test_parameters_without_gradient_are_left_out():
    model = nn.Linear(2, 3)
    model.bias.requires_grad_(False)
    (group,) = rates_of(model)
    assert group["params"] == [model.weight]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("paged", [False, True])
def test_eight_bit_moments_take_a_byte_each(paged):
    pytest.importorskip("bitsandbytes")
    model = nn.Linear(100, 100)
    settings = OptimSettings(TYPE="adamw8bit", BETAS=(0.8, 0.95), WEIGHT_DECAY=0.3, PAGED=paged)
    optimizer = build_optimizer(rates_of(model), settings)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (1e-3, (0.8, 0.95), 0.3)
    assert optimizer.is_paged is paged
    model(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    assert optimizer.state[model.weight]["state1"].dtype == torch.uint8


def test_eight_bit_moments_are_never_replaced_by_others(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    with pytest.raises(ModuleNotFoundError, match="bitsandbytes"):
        build_optimizer(rates_of(nn.Linear(2, 2)), OptimSettings(TYPE="adamw8bit"))


def test_on_cuda_one_kernel_steps_many_parameters():
    # Without data: the choice is made when the optimiser is built.
    with FakeTensorMode():
        (group,) = rates_of(nn.Linear(2, 2, device="cuda"))
        assert build_optimizer([group], OptimSettings()).param_groups[0]["fused"] is True
        (host,) = rates_of(nn.Linear(2, 2))
        assert build_optimizer([host], OptimSettings()).param_groups[0]["fused"] is None


def test_warm_up_then_cosine_to_the_floor():
    factors = [cosine_factor(step, 101, 10, 0.1) for step in range(101)]
    assert factors[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert factors[10] == 1.0
    assert factors[55] == pytest.approx(0.55)
    assert factors[100] == pytest.approx(0.1)
    assert all(a > b for a, b in pairwise(factors[10:]))


@pytest.mark.parametrize(
    ("written", "total", "steps"),
    [(None, 19, 0), (None, 130, 6), (None, 5000, 100), (0, 130, 0), (256, 130, 256)],
)
def test_steps_of_the_warm_up(written, total, steps):
    assert warmup_steps(ScheduleSettings(WARMUP_STEPS=written), total) == steps


def test_a_warm_up_that_is_not_written_follows_the_steps_of_the_run():
    optimizer = torch.optim.AdamW([{"params": [torch.zeros(1)], "base_lr": 1.0}])
    settings = ScheduleSettings(WARMUP_STEPS=None)
    first, second = (
        set_learning_rates(optimizer, settings, 1.0, n, total_steps=40) for n in (0, 1)
    )
    assert (first, second) == (0.5, 1.0)


@pytest.mark.parametrize(("total", "warmup"), [(1, 0), (1, 10), (5, 5), (5, 100), (2, 1)])
def test_short_runs_have_positive_rates(total, warmup):
    factors = [cosine_factor(step, total, warmup, 0.01) for step in range(total)]
    assert all(0 < factor <= 1 for factor in factors)


def test_rates_of_groups_keep_their_ratio_and_end_at_min_lr():
    groups = [{"params": [torch.zeros(1)], "base_lr": rate} for rate in (5e-5, 2e-4)]
    optimizer = torch.optim.AdamW(groups)
    settings = ScheduleSettings(WARMUP_STEPS=4, MIN_LR=1e-6)
    for step in (*range(20), 3):
        rate = set_learning_rates(optimizer, settings, 2e-4, step, total_steps=20)
        slow, fast = (group["lr"] for group in optimizer.param_groups)
        assert fast == rate
        assert slow == pytest.approx(rate / 4)
        if step == 19:
            assert rate == pytest.approx(1e-6)
    # The rate is a function of the step alone: going back gives the same again.
    assert rate == 2e-4


PHASES = [{"CROP_SIZE": 8, "EPOCHS": 2}, {"CROP_SIZE": 16, "EPOCHS": 1}]


@pytest.mark.parametrize(
    ("train", "per_epoch", "micro_batches", "steps"),
    [
        ({"EPOCHS": 4}, 10, 3, 13),
        ({"EPOCHS": 4}, 1, 100, 1),
        ({"EPOCHS": 4, "MAX_STEPS": 7}, 10, 3, 7),
        ({"EPOCHS": 4, "MAX_STEPS": 7}, 4, 3, 5),
        ({"EPOCHS": None, "MAX_STEPS": 7}, 1, 3, 7),
        ({"PROGRESSIVE": PHASES}, 10, 3, 10),
        ({"PROGRESSIVE": PHASES, "EPOCHS": None}, 10, 3, 10),
    ],
)
def test_steps_follow_from_epochs_or_their_maximum(train, per_epoch, micro_batches, steps):
    settings = DeblurringSettings.model_validate({"TRAIN": train})
    assert count_steps(settings, per_epoch, micro_batches) == steps
