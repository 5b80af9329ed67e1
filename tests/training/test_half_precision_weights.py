"""Weights that are cast together for a forward pass."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tests.training.forecast import FUTURE, PAST
from tests.training.replicas import assert_equal_to_one_process, train_by_two
from tests.training.setup_run import forecast_settings, train
from vrtspike.training.half_precision_weights import HalfPrecisionWeights

HALF = torch.bfloat16


class ScaledLinear(nn.Module):
    """A linear layer whose output a parameter of its own scales."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.scale = nn.Parameter(torch.full((2,), 0.3))
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor, *, shift: float) -> Tensor:
        self.seen = [self.linear.weight, self.linear.bias, self.scale]
        return self.scale * self.linear(x) + shift


@pytest.fixture
def model() -> ScaledLinear:
    torch.manual_seed(0)
    return ScaledLinear()


def test_the_model_computes_with_rounded_parameters(model):
    x = torch.rand(4, 3).to(HALF)
    rounded = [p.detach().to(HALF) for p in (model.linear.weight, model.linear.bias, model.scale)]
    weight, bias, scale = rounded
    result = HalfPrecisionWeights(model, HALF)(x, shift=1.0)
    assert result.dtype == HALF
    assert torch.equal(result, scale * nn.functional.linear(x, weight, bias) + 1.0)
    for seen, expected in zip(model.seen, rounded, strict=True):
        assert torch.equal(seen, expected)


def test_gradients_reach_the_parameters_in_their_own_type(model):
    x = torch.rand(4, 3).to(HALF)
    HalfPrecisionWeights(model, HALF)(x, shift=0.0).float().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    rounded = {
        name: parameter.detach().to(HALF).requires_grad_()
        for name, parameter in model.named_parameters()
    }
    torch.func.functional_call(model, rounded, (x,), {"shift": 0.0}).float().sum().backward()
    assert set(gradients) == {"scale", "linear.weight", "linear.bias"}
    for name, gradient in gradients.items():
        assert gradient.dtype == torch.float32
        assert torch.equal(gradient, rounded[name].grad.float()), name


def test_frozen_parameters_get_no_gradient(model):
    model.linear.bias.requires_grad_(False)
    HalfPrecisionWeights(model, HALF)(torch.rand(4, 3).to(HALF), shift=0.0).sum().backward()
    assert model.linear.bias.grad is None
    assert model.scale.grad is not None


def test_the_model_keeps_its_parameters(model):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    HalfPrecisionWeights(model, HALF)(torch.rand(4, 3).to(HALF), shift=0.0)
    assert isinstance(model.scale, nn.Parameter)
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, before[name])


class Forecast(nn.Conv2d):
    """A convolution that notes the types of its weights while it trains and while it does not."""

    def __init__(self) -> None:
        super().__init__(PAST, FUTURE, 3, padding=1)
        self.types: dict[bool, torch.dtype] = {}

    def forward(self, past: Tensor) -> Tensor:
        self.types[self.training] = self.weight.dtype
        return super().forward(past)


@pytest.mark.parametrize(
    ("precision", "half_precision_weights", "expected"),
    [
        ("bf16-mixed", True, HALF),
        ("bf16-mixed", False, torch.float32),
        ("32", True, torch.float32),
        ("bf16-true", True, HALF),
    ],
)
def test_a_run_trains_with_half_weights_where_both_ask_for_it(
    tmp_path, precision, half_precision_weights, expected
):
    model = Forecast()
    before = model.weight.detach().clone()
    settings = forecast_settings({"PRECISION": precision, "MAX_STEPS": 5})
    train(tmp_path, settings, model=lambda: model, half_precision_weights=half_precision_weights)
    kept = HALF if precision == "bf16-true" else torch.float32
    assert model.types == {True: expected, False: kept}, "validation takes the weights themselves"
    assert model.weight.dtype == kept
    assert not torch.equal(model.weight.float(), before)


def seeded_forecast(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return HalfPrecisionWeights(Forecast(), dtype)


def test_two_processes_average_the_gradients(tmp_path):
    # In float32, because the rounding of two halves of a batch differs from that of the whole.
    case = partial(seeded_forecast, torch.float32), (torch.rand(4, PAST, 8, 8),)
    train_by_two({"half": case}, tmp_path)
    assert_equal_to_one_process("half", case, tmp_path)
