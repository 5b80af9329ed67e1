from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch import nn

from vrtspike.config.train_schema import OptimSettings, RateFactors, TrainSettings
from vrtspike.training.optimizers import (
    build_optimizer,
    parameter_groups,
    scaled_learning_rate,
    trainable_groups,
)


@pytest.mark.parametrize(("kind", "expected"), [("none", 2e-4), ("sqrt", 4e-4), ("linear", 8e-4)])
def test_learning_rate_scales_with_the_global_batch(kind, expected):
    train = TrainSettings(BATCH_SIZE=3, SCALE_LR=kind, BASE_BATCH_SIZE=6)
    assert scaled_learning_rate(train, micro_batches=8) == pytest.approx(expected)


class Parts(nn.Module):
    """Three layers, the first of which is flow and the second the rest of the backbone."""

    def __init__(self, **groups: list[str]) -> None:
        super().__init__()
        self.flow, self.body, self.head = nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)
        self.groups = groups

    def rate_groups(self) -> dict[str, list[str]]:
        return self.groups


def test_a_factor_multiplies_the_rate_and_that_of_flow_the_backbones():
    model = Parts(backbone=["body.weight", "body.bias"], flow=["flow.weight", "flow.bias"])
    factors = RateFactors(NEW=2.0, BACKBONE=0.5, FLOW=0.25)
    groups = parameter_groups(trainable_groups(model), 1e-3, factors)
    assert [(group["name"], group["lr"]) for group in groups] == [
        ("new", pytest.approx(2e-3)),
        ("backbone", pytest.approx(5e-4)),
        ("flow", pytest.approx(1.25e-4)),
    ]
    for group, layer in zip(groups, (model.head, model.body, model.flow), strict=True):
        assert [id(p) for p in group["params"]] == [id(p) for p in layer.parameters()]


def test_by_default_flow_learns_at_an_eighth_of_the_backbones_rate():
    model = Parts(backbone=["body.weight"], flow=["flow.weight"])
    groups = parameter_groups(trainable_groups(model), 1e-3, RateFactors())
    assert [group["lr"] for group in groups] == [1e-3, 1e-3, 1.25e-4]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"flow": ["9.weight"]}, r"'9\.weight' is no parameter of the model"),
        ({"head": ["head.bias"]}, r"names 'head'; there are 'backbone' and 'flow'"),
        ({"flow": ["body.bias"], "backbone": ["body.bias"]}, r"'body\.bias' is in two groups"),
    ],
)
def test_wrong_groups_are_errors(groups, message):
    with pytest.raises(ValueError, match=message):
        trainable_groups(Parts(**groups))


def rates_of(model: nn.Module) -> list[dict[str, object]]:
    return parameter_groups(trainable_groups(model), 1e-3, RateFactors())


def test_parameters_without_gradient_are_left_out():
    model = nn.Linear(2, 3)
    model.bias.requires_grad_(False)
    (group,) = rates_of(model)
    assert group["params"] == [model.weight]


def test_settings_reach_the_optimiser():
    settings = OptimSettings(BETAS=(0.8, 0.95), WEIGHT_DECAY=0.3)
    optimizer = build_optimizer(rates_of(nn.Linear(2, 2)), settings)
    assert type(optimizer) is torch.optim.AdamW
    assert optimizer.param_groups[0]["betas"] == (0.8, 0.95)
    assert optimizer.param_groups[0]["weight_decay"] == 0.3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_eight_bit_moments_take_a_byte_each():
    pytest.importorskip("bitsandbytes")
    model = nn.Linear(100, 100)
    optimizer = build_optimizer(rates_of(model), OptimSettings(TYPE="adamw8bit"))
    model(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    assert optimizer.state[model.weight]["state1"].dtype == torch.uint8


def test_missing_bitsandbytes_falls_back_with_one_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = build_optimizer(rates_of(nn.Linear(2, 2)), OptimSettings(TYPE="adamw8bit"))
    assert type(optimizer) is torch.optim.AdamW
    assert len(caught) == 1
    assert "bitsandbytes is not installed" in str(caught[0].message)


def test_settings_reach_the_eight_bit_optimiser():
    pytest.importorskip("bitsandbytes")
    for paged in (False, True):
        settings = OptimSettings(TYPE="adamw8bit", BETAS=(0.8, 0.95), WEIGHT_DECAY=0.3, PAGED=paged)
        optimizer = build_optimizer(rates_of(nn.Linear(2, 2)), settings)
        (group,) = optimizer.param_groups
        assert (group["lr"], group["betas"], group["weight_decay"]) == (1e-3, (0.8, 0.95), 0.3)
        assert optimizer.is_paged is paged
