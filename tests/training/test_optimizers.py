from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

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


def stepped(optimizer: torch.optim.Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("fused", [None, True])
def test_a_state_changes_no_implementation_whoever_wrote_it(fused):
    torch.manual_seed(3)
    wrote = nn.Linear(3, 2)
    state = stepped(build_optimizer(rates_of(wrote), OptimSettings()), wrote).state_dict()
    # As a machine with a GPU writes it, and as older versions did.
    state["param_groups"][0].update(fused=True, capturable=True, foreach=False, lr=0.5)
    if fused is None:
        del state["param_groups"][0]["fused"]
    before = [dict(group) for group in state["param_groups"]]
    reader = nn.Linear(3, 2)
    optimizer = build_optimizer(rates_of(reader), OptimSettings())
    optimizer.load_state_dict(state)
    (group,) = optimizer.param_groups
    assert (group["fused"], group["foreach"], group["capturable"]) == (None, None, False)
    assert group["lr"] == 0.5
    assert state["param_groups"] == before
    for a, b in zip(wrote.parameters(), reader.parameters(), strict=True):
        assert optimizer.state[b]["step"] == 1
        assert torch.equal(
            optimizer.state[b]["exp_avg"], state["state"][0 if a.dim() == 2 else 1]["exp_avg"]
        )


def test_a_state_of_other_groups_is_refused():
    one, two = nn.Linear(3, 2), Parts(flow=["flow.weight"])
    for wrote, reader in ((one, two), (two, one)):
        state = build_optimizer(rates_of(wrote), OptimSettings()).state_dict()
        with pytest.raises(ValueError, match="different number of parameter groups"):
            build_optimizer(rates_of(reader), OptimSettings()).load_state_dict(state)


def test_on_cuda_one_kernel_steps_many_parameters():
    # Without data: the choice is made when the optimiser is built.
    with FakeTensorMode():
        (group,) = rates_of(nn.Linear(2, 2, device="cuda"))
        assert build_optimizer([group], OptimSettings()).param_groups[0]["fused"] is True
        (host,) = rates_of(nn.Linear(2, 2))
        assert build_optimizer([host], OptimSettings()).param_groups[0]["fused"] is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_fused_step_is_the_other_up_to_rounding():
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(3)
        model = nn.Linear(3, 2).to(device)
        optimizer = build_optimizer(rates_of(model), OptimSettings())
        for _ in range(5):
            model(torch.ones(1, 3, device=device)).square().sum().backward()
            optimizer.step()
        if device == "cuda":
            assert optimizer.state[model.weight]["step"].is_cuda
        found.append(model.weight.detach().cpu())
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)
