"""Kernels compared with references: what differs is seen, and nothing of a run is touched."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.ops.comparison import (
    differences,
    isolated,
    largest,
    relative_errors,
)
from vrtspike.deblurring.models.ops.dispatch import KERNELS, REFERENCE, Compute

CPU = torch.device("cpu")
INPUTS = [torch.linspace(-1, 1, 12).view(3, 4), torch.linspace(1, 2, 8).view(4, 2)]


def product(by_kernel: float = 1.0, gradient: float = 1.0):
    """A product of matrices that is off by factors where kernels run."""

    def run(compute: Compute, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            out = x.float() @ y.float()
        if compute is REFERENCE:
            return out
        assert compute is KERNELS
        return by_kernel * (out.detach() + gradient * (out - out.detach()))

    return run


def test_results_and_gradients_count_as_shares_of_the_norm() -> None:
    same = differences(product(), INPUTS, torch.bfloat16)
    assert same == pytest.approx([0, 0, 0], abs=5e-3)
    assert differences(product(1.1), INPUTS, torch.bfloat16) == pytest.approx([0.1] * 3, abs=5e-3)
    found = differences(product(gradient=0.5), INPUTS, torch.bfloat16)
    assert found == pytest.approx([0, 0.5, 0.5], abs=5e-3)


def test_parameters_of_layers_count() -> None:
    layer = nn.Linear(4, 2)

    def run(compute: Compute, x: Tensor) -> tuple[Tensor, Tensor]:
        weight = layer.weight
        if compute is KERNELS:
            weight = weight.detach() + 0.25 * (weight - weight.detach())
        with torch.autocast("cpu", enabled=False):
            return x, nn.functional.linear(x, weight, layer.bias)

    found = differences(run, INPUTS[:1], torch.float16, layers=[layer])
    # Two results, the input, the weight and the bias.
    assert found == pytest.approx([0, 0, 0, 0.75, 0], abs=5e-3)


def test_a_value_that_is_no_number_counts_wherever_it_is() -> None:
    shares = relative_errors([torch.ones(2), torch.tensor([1, math.nan])], [torch.ones(2)] * 2)
    assert shares[0] == 0
    for order in (shares, shares[::-1]):
        assert math.isnan(largest(order))
    assert largest([0.1, 0.3, 0.2]) == pytest.approx(0.3)


def test_random_numbers_and_modes_of_a_run_stay() -> None:
    state = torch.get_rng_state()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        numbers = []
        for _ in range(2):
            with isolated(CPU) as generator:
                assert torch.is_grad_enabled()
                assert not torch.is_autocast_enabled("cpu")
                assert not torch.is_inference_mode_enabled()
                numbers.append((torch.randn(3), torch.randn(3, generator=generator)))
        torch.testing.assert_close(*numbers)
    assert torch.equal(torch.get_rng_state(), state)
