"""Factors of residual branches: what is drawn, for whom, and in captured passes."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.deblurring.models import stochastic_depth
from vrtspike.deblurring.models.stochastic_depth import StochasticDepth, with_kept_samples

RATES = [0.0, 0.25, 0.5]


def capturing() -> object:
    return mock.patch.object(stochastic_depth, "_is_capturing", return_value=True)


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
        layer.redraw()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_replay_reads_what_an_eager_pass_would_draw() -> None:
    layer = StochasticDepth(RATES)
    before = torch.get_rng_state()
    with capturing():
        captured = layer(torch.ones(4, 5))
    assert torch.equal(torch.get_rng_state(), before)
    assert captured.shape == (3, 2, 4)
    for seed in range(3):
        expected, after = drawn(layer, 4, seed), torch.rand(1)
        torch.manual_seed(seed)
        layer.redraw()
        assert torch.equal(captured, expected)
        assert torch.equal(torch.rand(1), after)
        # An eager pass has factors of its own.
        drawn(layer, 4, seed + 7)
        assert torch.equal(captured, expected)


def test_graphs_of_one_batch_size_share_their_factors() -> None:
    layer = StochasticDepth(RATES)
    with capturing():
        first, again, larger = (layer(torch.ones(samples, 5)) for samples in (2, 2, 3))
    assert again is first
    assert larger.shape == (3, 2, 3)
    assert not layer.state_dict()
    torch.manual_seed(1)
    layer.redraw()
    assert torch.equal(larger, drawn(layer, 3, 1))


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_graph_on_a_gpu_reads_what_the_cpu_draws() -> None:
    layer, x = StochasticDepth(RATES), torch.ones(4, 5, device="cuda")
    expected = drawn(layer, 4, 7)
    torch.manual_seed(7)
    assert torch.equal(layer(x).cpu(), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = layer(x) * 2
    for seed in (7, 8):
        torch.manual_seed(seed)
        layer.redraw()
        graph.replay()
        assert torch.equal(doubled.cpu(), 2 * drawn(layer, 4, seed))


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
