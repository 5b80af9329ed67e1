from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch import nn

from vrtspike.config.train_schema import OptimSettings, TrainSettings
from vrtspike.training.optimizers import build_optimizer, parameter_groups, scaled_learning_rate


@pytest.mark.parametrize(("kind", "expected"), [("none", 2e-4), ("sqrt", 4e-4), ("linear", 8e-4)])
def test_learning_rate_scales_with_the_global_batch(kind, expected):
    train = TrainSettings(BATCH_SIZE=3, SCALE_LR=kind, BASE_BATCH_SIZE=6)
    assert scaled_learning_rate(train, micro_batches=8) == pytest.approx(expected)


def test_slow_parameters_learn_at_a_quarter_of_the_rate():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    groups = parameter_groups(model, 1e-3, ["0.weight"])
    assert [group["lr"] for group in groups] == [1e-3, 2.5e-4]
    assert groups[1]["params"] == [model[0].weight]
    assert len(groups[0]["params"]) == 3
    with pytest.raises(ValueError, match=r"no parameter '9\.weight'"):
        parameter_groups(model, 1e-3, ["9.weight"])


def test_parameters_without_gradient_are_left_out():
    model = nn.Linear(2, 3)
    model.bias.requires_grad_(False)
    (group,) = parameter_groups(model, 1e-3)
    assert group["params"] == [model.weight]


def test_settings_reach_the_optimiser():
    settings = OptimSettings(BETAS=(0.8, 0.95), WEIGHT_DECAY=0.3)
    optimizer = build_optimizer(parameter_groups(nn.Linear(2, 2), 1e-3), settings)
    assert type(optimizer) is torch.optim.AdamW
    assert optimizer.param_groups[0]["betas"] == (0.8, 0.95)
    assert optimizer.param_groups[0]["weight_decay"] == 0.3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_eight_bit_moments_take_a_byte_each():
    pytest.importorskip("bitsandbytes")
    model = nn.Linear(100, 100)
    optimizer = build_optimizer(parameter_groups(model, 1e-3), OptimSettings(TYPE="adamw8bit"))
    model(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    assert optimizer.state[model.weight]["state1"].dtype == torch.uint8


def test_missing_bitsandbytes_falls_back_with_one_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = build_optimizer(
            parameter_groups(nn.Linear(2, 2), 1e-3), OptimSettings(TYPE="adamw8bit")
        )
    assert type(optimizer) is torch.optim.AdamW
    assert len(caught) == 1
    assert "bitsandbytes is not installed" in str(caught[0].message)
