"""The check that lets a kernel run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vrtspike.models.window_attention import choose_implementation
from vrtspike.models.window_attention.agreement import agrees, largest_difference
from vrtspike.models.window_attention.explicit import explicit_attention
from vrtspike.models.window_attention.recompute import recompute_attention
from vrtspike.models.window_attention.triton_attention import triton_attention
from vrtspike.models.windows import WindowPlan

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_agrees_is_let_through(dtype: torch.dtype) -> None:
    state = torch.get_rng_state()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert agrees(recompute_attention, CPU, dtype)
    assert torch.equal(torch.get_rng_state(), state)
    assert largest_difference(recompute_attention, CPU, torch.float32) < 1e-5


def test_a_wrong_result_is_refused() -> None:
    def without_bias(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        return explicit_attention(qkv, None if bias is None else 0 * bias, plan, heads)

    with pytest.warns(UserWarning, match="without_bias is not used.*differs"):
        assert not agrees(without_bias, CPU, torch.float32)


def test_a_wrong_gradient_is_refused() -> None:
    def blind(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        out = explicit_attention(qkv, bias, plan, heads)
        return out.detach() + 0.5 * (out - out.detach())

    with pytest.warns(UserWarning, match="differs"):
        assert not agrees(blind, CPU, torch.float32)


def test_a_fault_of_small_windows_alone_is_refused() -> None:
    def large(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        out = explicit_attention(qkv, bias, plan, heads)
        return out if plan.tokens > 16 else 2 * out

    with pytest.warns(UserWarning, match="large is not used.*differs"):
        assert not agrees(large, CPU, torch.float32)


def test_a_failing_kernel_is_refused() -> None:
    def broken(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        raise RuntimeError("no kernel image is available")

    with pytest.warns(UserWarning, match="no kernel image"):
        assert not agrees(broken, CPU, torch.float32)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_own_kernels_are_chosen_on_a_gpu(dtype: torch.dtype) -> None:
    assert choose_implementation("auto", torch.device("cuda", 0), dtype) == "triton"


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_own_kernels_run_beside_the_current_device() -> None:
    with torch.cuda.device(0):
        assert agrees(triton_attention, torch.device("cuda", 1), torch.float32)
