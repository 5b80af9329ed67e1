"""Factors of residual branches: what is drawn, and for whom."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.deblurring.models.stochastic_depth import StochasticDepth, with_kept_samples

RATES = [0.0, 0.25, 0.5]


def drawn(layer: StochasticDepth, samples: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    factors = layer(torch.ones(samples, 5))
    assert factors is not None
    return factors


def test_factors_are_those_of_one_draw_of_the_cpu_generator() -> None:
    factors = drawn(StochasticDepth(RATES), 4)
    torch.manual_seed(0)
    chance = torch.rand(3, 2, 4)
    assert factors.dtype == torch.float32
    for block, rate in enumerate(RATES):
        kept = chance[block] < 1 - rate
        assert torch.equal(factors[block], kept / torch.tensor(1 - rate))


@pytest.mark.parametrize("rates", [[], [0.0, 0.0]])
def test_nothing_is_drawn_where_nothing_is_dropped(rates: list[float]) -> None:
    before = torch.get_rng_state()
    for layer in (StochasticDepth(rates), StochasticDepth(RATES).eval()):
        assert layer(torch.ones(2, 3)) is None
    assert torch.equal(torch.get_rng_state(), before)


def test_a_step_that_is_counted_draws_nothing() -> None:
    layer, before = StochasticDepth(RATES), torch.get_rng_state()
    with FakeTensorMode():
        factors = layer(torch.ones(2, 5, device="cuda"))
    assert (factors.shape, factors.dtype) == ((3, 2, 2), torch.float32)
    assert factors.device.type == "cuda"
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_rates_are_probabilities_below_one(rate: float) -> None:
    with pytest.raises(ValueError, match=r"in \[0, 1\), not \[0.0, "):
        StochasticDepth([0.0, rate])


def test_what_samples_drop_is_not_computed_on_a_cpu() -> None:
    seen = []

    def layer(x: torch.Tensor, bias: float, keep: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x + bias * keep[:, None]

    x, keep = torch.rand(3, 2), torch.tensor([0.0, 1.25, 2.0])
    found = with_kept_samples(layer, x, 10.0, keep=keep)
    assert torch.equal(found, x + 10.0 * keep[:, None])
    (computed,) = seen
    assert torch.equal(computed, x[1:])
