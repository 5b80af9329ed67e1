"""What launches of Triton kernels cost: bytes, products, instructions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import step_trace
import triton_costs as costs
from kernel_code import compile_kernel
from machine_loops import Count
from vrtspike.deblurring.models.ops.dispatch import Compute
from vrtspike.deblurring.models.ops.window_attention import window_attention
from vrtspike.deblurring.models.ops.window_attention.windows import build_plan, clip_window

PACKING = "kernel_parts.packing_kernel"


@pytest.fixture
def packing_kernel() -> Any:
    from vrtspike.deblurring.models.ops.window_attention import kernel_parts

    return kernel_parts.packing_kernel


def packing_arguments() -> dict[str, Any]:
    tensors = {"bias": torch.zeros(6, 128, 128), "packed": torch.zeros(7, 128, 128).bfloat16()}
    strides = {"by_head": 128 * 128, "by_query": 128, "by_key": 1, "heads": 6, "factor": 4.0}
    return {**tensors, **strides, "N": 128, "STRIDE": 128, "BLOCK": 32, "num_warps": 4}


def test_each_tensor_is_moved_once_and_every_program_issues_its_code(packing_kernel: Any) -> None:
    grid = (7 * 4 * 4,)
    found = costs.launched(packing_kernel, grid, packing_arguments())
    assert found.moved == 128 * 128 * (6 * 4 + 7 * 2)
    types = {"bias": "*fp32", "packed": "*bf16", "factor": "fp32"}
    types |= dict.fromkeys(("by_head", "by_query", "by_key", "heads"), "i32")
    constants = {"N": 128, "STRIDE": 128, "BLOCK": 32}
    code = compile_kernel(packing_kernel, types, constants, 90, num_warps=4)
    assert found.issued() == (grid[0] * 4 * code.instructions, grid[0] * 4 * code.special)


def test_a_loop_counts_as_often_as_it_runs(
    packing_kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Count(117, (10, 7)), Count(8, (2, 1))
    monkeypatch.setattr(costs.Code, "counts", lambda _: counts)

    def issued(*trips: float) -> tuple[float, float]:
        monkeypatch.setitem(costs.WORK, PACKING, lambda _: costs.Work(trips))
        return costs.launched(packing_kernel, (2, 3), packing_arguments()).issued()

    warps = 6 * 4
    assert issued(5, 2) == (warps * (100 + 5 * 10 + 2 * 7), warps * (5 + 5 * 2 + 2 * 1))
    # One loop of the source that the compiler made two of.
    assert issued(4) == (warps * (100 + 4 * 8.5), warps * (5 + 4 * 1.5))


def attention_launches(depth: int) -> tuple[list[Any], Any]:
    """Launches of forward and backward pass, and their windows."""
    size, window, tokens = (depth, 16, 24), (depth, 8, 8), 64 * depth
    with step_trace.without_gpu() as mode:
        plan = build_plan(clip_window(size, window, shifted=True, mutual=False), step_trace.DEVICE)
        with torch.device(step_trace.DEVICE):
            shape = (BATCH, plan.out.numel(), 3 * HEADS * WIDTH)
            qkv = torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)
            bias = torch.randn(HEADS, tokens, tokens, requires_grad=True)

        def run() -> torch.Tensor:
            out = window_attention(qkv, bias, plan, HEADS, Compute("triton"))
            return out.float().sum()

        model = torch.nn.Module()
        launches = step_trace.trace(mode, model, run, lambda _, name: name).launches
    return [x for x in launches if x.operation.startswith("window_attention.")], plan


BATCH, HEADS, WIDTH = 2, 2, 16


@pytest.mark.parametrize("depth", [2, 3])
def test_the_launches_of_an_attention_are_counted_as_they_are_made(depth: int) -> None:
    launches, plan = attention_launches(depth)
    windows, tokens = plan.query.shape
    assert (windows, tokens) == (6, 64 * depth)
    flops: dict[str, float] = {}
    for launch in launches:
        name = launch.operation.removeprefix("window_attention.")
        flops[name] = flops.get(name, 0) + launch.kernel.flops
        assert launch.kernel.left is None
    product = 2 * BATCH * windows * HEADS * tokens * tokens * WIDTH
    # Products of a score besides q k: p^T g, g v, ds^T q, ds k; q k and g v once more.
    backward = {"gradient_kernel": 5, "bias_kernel": 2}
    products = {"packing_kernel": 0, "forward_kernel": 2} | backward
    assert flops == {name: count * product for name, count in products.items()}
    # Windows of one region and the others are launched by themselves, and touch only their tokens.
    forward = [x.kernel.moved for x in launches if x.operation.endswith("forward_kernel")]
    assert len(forward) == 2
    values = BATCH * windows * tokens * HEADS * WIDTH
    lse = 4 * BATCH * windows * HEADS * tokens
    tables = (
        sum(t.numel() * 4 for t in (plan.query, plan.key, plan.out, plan.regions))
        + 2 * (HEADS + 1) * tokens**2  # the identity behind the bias
    )
    assert sum(forward) == pytest.approx(2 * (3 + 1) * values + lse + tables)
