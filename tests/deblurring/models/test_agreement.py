"""The check that lets a kernel run."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from vrtspike.deblurring.models.window_attention import choose_implementation
from vrtspike.deblurring.models.window_attention.agreement import (
    AttentionFunction,
    agrees,
    largest_difference,
)
from vrtspike.deblurring.models.window_attention.explicit import explicit_attention
from vrtspike.deblurring.models.window_attention.recompute import recompute_attention
from vrtspike.deblurring.models.window_attention.triton_attention import triton_attention
from vrtspike.deblurring.models.windows import WindowPlan

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_agrees_is_let_through(dtype: torch.dtype) -> None:
    state = torch.get_rng_state()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert agrees(recompute_attention, CPU, dtype)
    assert torch.equal(torch.get_rng_state(), state)


def test_in_single_precision_the_difference_is_that_of_rounding() -> None:
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


def test_what_the_check_tries() -> None:
    tried = set()
    grown = []

    def watched(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        geometry = plan.geometry
        if not torch.is_grad_enabled():
            grown.append(growth(qkv[0], plan, heads))
            return explicit_attention(qkv, bias, plan, heads)
        shifted, padded = any(geometry.shift), geometry.padded != geometry.size
        tried.add((geometry.window, geometry.mutual, shifted, padded, qkv.shape[2] // (3 * heads)))
        return explicit_attention(qkv, bias, plan, heads)

    assert agrees(watched, CPU, torch.float32)
    # Once scores that grow so much that weights relative to the first overflow bfloat16, too.
    assert len(grown) == 1
    assert grown[0] > 128
    windows = {(window, mutual) for window, mutual, *_ in tried}
    # Those of VRT with windows of 8 x 8, and of the attention along time.
    assert windows >= {((2, 8, 8), True), ((2, 8, 8), False), ((6, 8, 8), False)}
    # Several blocks of a kernel, the last of them not full.
    assert ((5, 7, 7), False) in windows
    assert ((6, 1, 1), False) in windows
    assert any(math.prod(window) // (1 + mutual) < 16 for window, mutual in windows)
    for window, mutual in windows:
        kinds = [kind[2:] for kind in tried if kind[:2] == (window, mutual)]
        # Of stages 1-7 and of stage 8.
        assert {width for *_, width in kinds} == {16, 20}
        if window[1] > 1:
            assert {shifted for shifted, *_ in kinds} == {False, True}
            assert all(padded for _, padded, _ in kinds), "the map is no multiple of the window"


def growth(qkv: Tensor, plan: WindowPlan, heads: int) -> float:
    """By how much the largest score of some query grows after the first 64 keys, in base 2."""
    queries, keys, _ = qkv.unflatten(1, (3, heads, -1)).unbind(1)
    scores = torch.einsum("wqhc,wkhc->whqk", queries[plan.query], keys[plan.key])
    scores *= queries.shape[-1] ** -0.5 / math.log(2)
    return (scores[..., 64:].amax(-1) - scores[..., :64].amax(-1)).max().item()


def small_difference(spoil: AttentionFunction) -> float:
    windows = (((1, 1, 2), False), ((2, 1, 2), True))
    return largest_difference(spoil, CPU, torch.float32, (2, 2, 4), windows)


@pytest.mark.parametrize("mutual", [False, True])
def test_a_result_that_is_no_number_counts_wherever_it_is(mutual: bool) -> None:
    def spoilt(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        out = explicit_attention(qkv, bias, plan, heads)
        return out * float("nan") if plan.geometry.mutual == mutual else out

    assert math.isnan(small_difference(spoilt))
    with pytest.warns(UserWarning, match="spoilt is not used.*differs.* by nan"):
        assert not agrees(spoilt, CPU, torch.float32)


def test_a_wrong_gradient_of_the_bias_alone_counts() -> None:
    def blind(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        half = None if bias is None else bias.detach() + 0.5 * (bias - bias.detach())
        return explicit_attention(qkv, half, plan, heads)

    assert small_difference(blind) == pytest.approx(0.5)
    assert small_difference(explicit_attention) == 0


def test_twice_the_rounding_of_half_precision_is_too_much() -> None:
    def off(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
        return 1.05 * explicit_attention(qkv, bias, plan, heads)

    with pytest.warns(UserWarning, match="differs"):
        assert not agrees(off, CPU, torch.bfloat16)


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
