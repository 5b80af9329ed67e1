"""Layers that keep only their input, against the plain modules."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from vrtspike.deblurring.models.layers import GEGLU, Branch
from vrtspike.deblurring.models.token_ops import (
    add_feed_forward,
    add_linear,
    choice,
    has_kernels,
    normalised_geglu,
    normalised_linear,
)
from vrtspike.deblurring.models.token_ops.agreement import largest_difference

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


def test_added_branches_are_those_of_plain_layers(norm: nn.LayerNorm) -> None:
    mlp, linear = GEGLU(6, 12).to(DOUBLE), nn.Linear(6, 6).to(DOUBLE)
    x, y = (torch.randn(2, 1, 3, 4, 6, dtype=DOUBLE, requires_grad=True) for _ in range(2))
    factors = torch.tensor([0.0, 1.25])
    scaled = x + factors.view(2, 1, 1, 1, 1) * mlp(norm(x))
    inputs = [x, *norm.parameters(), *mlp.parameters()]
    for keep in (False, True):
        found = add_feed_forward(x, norm, mlp, Branch(factors, False), keep_hidden=keep)
        same_gradients(scaled, found, inputs)
        scaled = x + factors.view(2, 1, 1, 1, 1) * mlp(norm(x))
    same_gradients(x + linear(y), add_linear(x, linear, y), [x, y, *linear.parameters()])


def test_kernels_are_for_cuda_and_widths_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_kernels(torch.zeros(1, 96))
    with FakeTensorMode():
        for channels, dtype in ((96, torch.float32), (120, torch.float32), (8, torch.bfloat16)):
            assert has_kernels(torch.zeros(1, channels, dtype=dtype, device="cuda"))
        for channels, dtype in ((128, torch.float32), (30, torch.float32), (96, DOUBLE)):
            assert not has_kernels(torch.zeros(1, channels, dtype=dtype, device="cuda"))
        # A stream of another half type than that of the products has no kernel.
        monkeypatch.setattr(choice, "autocast_dtype", lambda _: torch.bfloat16)
        assert has_kernels(torch.zeros(1, 96, device="cuda"))
        assert not has_kernels(torch.zeros(1, 96, dtype=torch.float16, device="cuda"))


CHECK = Path(__file__).with_name("token_kernels_check.py")


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_kernels_in_the_interpreter() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, str(CHECK)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_kernels_on_the_device(dtype: torch.dtype) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert largest_difference(torch.device("cuda"), dtype) < tolerance


@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_clips_that_32_bits_cannot_reach_are_left_to_the_plain_layers() -> None:
    with FakeTensorMode(), torch.device("cuda", 0):
        # 720p fits; a ninth frame of 1080p does not, once its map is padded.
        assert has_kernels(torch.empty(1, 6, 720, 1280, 120))
        assert has_kernels(torch.empty(4, 4, 720, 1280, 120))
        assert not has_kernels(torch.empty(1, 9, 1080, 1920, 120))
