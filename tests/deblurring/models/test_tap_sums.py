"""Sums of a convolution's taps in time: the definition by hand, the kernels by the definition."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from vrtspike.deblurring.models import flow
from vrtspike.deblurring.models.flow import FlowLevel
from vrtspike.deblurring.models.layers import activated_conv
from vrtspike.deblurring.models.tap_sums import activated, choice, sum_of_taps
from vrtspike.deblurring.models.tap_sums.triton_sums import SUMS

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
CAPABILITIES = (80, 90, 100)


def test_taps_fall_on_the_frames_around_theirs() -> None:
    # One channel, three frames of one pixel: taps 1, 10, 100 of the first, twice that of the next.
    taps = torch.tensor([1.0, 10.0, 100.0]) * torch.arange(1, 4).view(3, 1)
    found = sum_of_taps(taps.view(1, 3, 1, 1, 3), torch.tensor([0.5]))
    assert found.flatten().tolist() == [10 + 200 + 0.5, 20 + 1 + 300 + 0.5, 30 + 2 + 0.5]


def test_a_residual_is_added_before_negative_sums_become_zero() -> None:
    taps = torch.tensor([0.0, 2.0, 0.0]).view(1, 1, 1, 1, 3)
    residual = torch.tensor([-3.0]).view(1, 1, 1, 1, 1)
    assert sum_of_taps(taps, None, residual).item() == -1
    assert sum_of_taps(taps, None, residual, rectified=True).item() == 0
    assert sum_of_taps(taps, None, -residual, rectified=True).item() == 5


def test_a_bias_is_added_before_the_activation() -> None:
    x = torch.tensor([-3.0, 1.0, 0.5]).view(1, 1, 1, 3)
    bias = torch.tensor([1.0, -2.0, 1.0])
    assert activated(x, bias, 0.0).flatten().tolist() == [0, 0, 1.5]
    assert activated(x, bias, 0.5).flatten().tolist() == [-1, -0.5, 1.5]


@pytest.mark.parametrize(("layer", "slope"), [(nn.ReLU(), 0.0), (nn.LeakyReLU(0.1), 0.1)])
def test_a_convolution_with_activation_is_both_layers(layer: nn.Module, slope: float) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 6, 5, padding=2, stride=2).double()
    x = torch.randn(2, 4, 7, 9, dtype=torch.double, requires_grad=True)
    results = [activated_conv(conv, x, slope), layer(conv(x))]
    assert results[0].shape == (2, 6, 4, 5)
    torch.testing.assert_close(*results)
    gradients = [torch.autograd.grad(r.sin().sum(), [x, *conv.parameters()]) for r in results]
    torch.testing.assert_close(*gradients)


def test_flow_by_own_kernels_is_that_of_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    level = FlowLevel().double()
    x = torch.randn(2, 8, 6, 10, dtype=torch.double)
    expected = level(x)
    # The definition of the kernels stands for them.
    monkeypatch.setattr(flow, "activates", lambda _: True)
    found = level(x)
    assert found.is_contiguous()
    torch.testing.assert_close(found, expected)


def test_gradcheck() -> None:
    torch.manual_seed(0)
    taps = torch.randn(2, 3, 1, 2, 6, dtype=torch.double, requires_grad=True)
    bias = torch.randn(2, dtype=torch.double, requires_grad=True)
    residual = torch.randn(2, 3, 1, 2, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *inputs: sum_of_taps(*inputs, rectified=True), (taps, bias, residual)
    )


def test_more_frames_than_a_grid_has_lines_take_the_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "_is_trusted", lambda *_: True)
    monkeypatch.setattr(choice, "triton_sum", lambda *_, **__: pytest.fail("not by kernels"))
    assert sum_of_taps(torch.zeros(2**15, 2, 1, 1, 3), None).shape == (2**15, 2, 1, 1, 1)


@pytest.mark.slow
@needs_triton
def test_kernels_in_the_interpreter() -> None:
    program = Path(__file__).with_name("tap_sums_check.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", ["sum_kernel", "sum_gradient_kernel"])
@pytest.mark.parametrize(("taps", "slope"), [(3, 0.0), (1, 0.0), (1, 0.1)])
def test_kernels_compile_without_a_spill(
    name: str, taps: int, slope: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from kernel_code import compile_kernel

    from vrtspike.deblurring.models.tap_sums import kernels

    kernel = getattr(kernels, name)
    shared = {"bias": "*fp32", "partial": "*fp32", "pixels": "i32", "steps": "i32"}
    sizes = dict(SUMS)
    warps = sizes.pop("num_warps")
    values = {"C": 96, "BIASED": True, "RECTIFIED": True, **sizes}
    values |= {"TAPS": taps, "RESIDUAL": taps == 3, "SLOPE": slope}
    for capability in CAPABILITIES:
        types = {n: shared.get(n, "*bf16") for n in kernel.arg_names if n not in values}
        code = compile_kernel(kernel, types, values, capability, num_warps=warps)
        assert code.stack == 0
        assert code.registers <= 64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_kernels_on_a_gpu(dtype: torch.dtype, most: float) -> None:
    assert choice.largest_difference(torch.device("cuda"), dtype) < most
