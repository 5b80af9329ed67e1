"""Layers that keep only their input, against the plain modules."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.models.layers import GEGLU
from vrtspike.models.token_ops import normalised_geglu, normalised_linear

DOUBLE = torch.float64


@pytest.fixture
def norm() -> nn.LayerNorm:
    torch.manual_seed(0)
    layer = nn.LayerNorm(6).to(DOUBLE)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    return layer


def same_gradients(expected: Tensor, found: Tensor, inputs: list[Tensor]) -> None:
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    )


def test_feed_forward_is_norm_then_geglu(norm: nn.LayerNorm) -> None:
    mlp = GEGLU(6, 5, 4).to(DOUBLE)
    # More rows than one piece holds (2**18 values of the hidden width).
    x = torch.randn(2, 30000, 6, dtype=DOUBLE, requires_grad=True)
    inputs = [x, *norm.parameters(), *mlp.parameters()]
    same_gradients(mlp(norm(x)), normalised_geglu(x, norm, mlp), inputs)


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("beyond", [0, 8])
def test_linear_is_norm_padding_code_and_linear(
    norm: nn.LayerNorm, coded: bool, beyond: int
) -> None:
    layer = nn.Linear(6, 9).to(DOUBLE)
    x = torch.randn(2, 16, 6, dtype=DOUBLE, requires_grad=True)
    code = torch.randn(4, 6, dtype=DOUBLE)
    padded = functional.pad(norm(x), (0, 0, 0, beyond))
    expected = layer(padded + code.repeat(4 + beyond // 4, 1) if coded else padded)
    found = normalised_linear(x, norm, layer, code if coded else None, 16 + beyond)
    same_gradients(expected, found, [x, *norm.parameters(), *layer.parameters()])


def test_gradcheck(norm: nn.LayerNorm) -> None:
    mlp, layer = GEGLU(6, 5).to(DOUBLE), nn.Linear(6, 3).to(DOUBLE)
    x = torch.randn(1, 4, 6, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: normalised_geglu(t, norm, mlp), (x,))
    assert torch.autograd.gradcheck(lambda t: normalised_linear(t, norm, layer, None, 5), (x,))


def test_only_the_input_is_kept() -> None:
    norm, mlp = nn.LayerNorm(16), GEGLU(16, 32)
    x = torch.randn(1000, 16, requires_grad=True)
    kept: set[int] = set()

    def pack(tensor: Tensor) -> Tensor:
        if tensor.numel() >= x.numel():
            kept.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        normalised_geglu(x, norm, mlp)
    assert kept == {x.untyped_storage().data_ptr()}


def test_autocast_gives_its_type_and_float32_gradients() -> None:
    norm, mlp = nn.LayerNorm(16), GEGLU(16, 32)
    x = torch.randn(50, 16, requires_grad=True)
    exact = mlp(norm(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = normalised_geglu(x, norm, mlp)
    assert half.dtype == torch.bfloat16
    assert (half.float() - exact).norm() / exact.norm() < 0.02
    half.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float32
    assert mlp.fc11.weight.grad is not None
    assert mlp.fc11.weight.grad.dtype == torch.float32
