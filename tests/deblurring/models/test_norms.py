"""Layer norms as products read them, by plain layers; the kernels by the definition."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from vrtspike.deblurring.models.layers import SpaceToDepth
from vrtspike.deblurring.models.norms import choice, normalised
from vrtspike.deblurring.models.norms.triton_norms import WIDEST, launch

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
CAPABILITIES = (80, 90, 100)


def norm_of(channels: int) -> nn.LayerNorm:
    torch.manual_seed(0)
    norm = nn.LayerNorm(channels)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


def test_a_norm_beside_other_channels() -> None:
    norm = norm_of(6)
    x, beside = torch.randn(2, 1, 3, 4, 6), torch.randn(2, 1, 3, 4, 6)
    same, found = normalised(x, norm, torch.float32, beside)
    assert torch.equal(same, x)
    assert torch.equal(found[..., :6], norm(x))
    assert torch.equal(found[..., 6:], beside)


def test_a_norm_of_folded_pictures() -> None:
    norm = norm_of(12)
    x = torch.randn(2, 2, 4, 6, 3)
    same, found = normalised(x, norm, torch.bfloat16, folded=True)
    assert torch.equal(same, x)
    assert torch.equal(found, norm(SpaceToDepth()(x)).bfloat16())


def test_what_kernels_do_not_take_is_left_to_the_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[torch.dtype] = []
    taken: list[tuple[torch.dtype, torch.dtype, int]] = []

    def trusted(_: torch.device, dtype: torch.dtype) -> bool:
        tried.append(dtype)
        return True

    def kernel(x: torch.Tensor, *rest: object, folded: bool) -> None:
        assert not folded
        assert isinstance(rest[3], torch.dtype)
        taken.append((x.dtype, rest[3], x.shape[-1]))

    monkeypatch.setattr(choice, "_is_trusted", trusted)
    monkeypatch.setattr(choice, "triton_norm", kernel)
    exact, half, other = torch.float32, torch.bfloat16, torch.float16
    kinds = [(exact, half, 8), (half, half, 8), (half, exact, WIDEST), (exact, exact, 8)]
    for of_x, dtype, channels in kinds:
        normalised(torch.zeros(1, 1, channels, dtype=of_x), norm_of(channels), dtype)
    assert taken == kinds
    assert tried == [half] * 3 + [exact]
    out = normalised(torch.zeros(1, 1, WIDEST + 1), norm_of(WIDEST + 1), half)[1]
    assert out.shape == (1, 1, WIDEST + 1)
    normalised(torch.zeros(1, 1, 8, dtype=half), norm_of(8).to(half), other)
    assert taken == kinds


@pytest.mark.slow
@needs_triton
def test_kernels_in_the_interpreter() -> None:
    program = Path(__file__).with_name("norms_check.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", ["norm_kernel", "norm_gradient_kernel"])
@pytest.mark.parametrize(("channels", "kind"), [(96, "BESIDE"), (96, ""), (384, "FOLDED")])
def test_kernels_compile_without_a_spill(
    name: str, channels: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from kernel_code import compile_kernel

    from vrtspike.deblurring.models.norms import kernels

    kernel = getattr(kernels, name)
    known = {"rows": "i32", "width": "i32", "grad": "*bf16", "beside": "*bf16", "out": "*bf16"}
    sizes = launch(channels, gradient=name == "norm_gradient_kernel")
    warps = sizes.pop("num_warps")
    values = {"FOLDED": kind == "FOLDED", "BESIDE": kind == "BESIDE", "EPSILON": 1e-5, **sizes}
    if "gradient" in name:
        values["THROUGH"] = kind == "BESIDE"
    for capability in CAPABILITIES:
        types = {n: known.get(n, "*fp32") for n in kernel.arg_names if n not in values}
        code = compile_kernel(kernel, types, values, capability, num_warps=warps)
        assert code.stack == 0
        assert code.registers <= 128


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)])
def test_kernels_on_a_gpu(dtype: torch.dtype, most: float) -> None:
    assert choice.largest_difference(torch.device("cuda"), dtype) < most
