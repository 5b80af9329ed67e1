"""What launches of Triton kernels cost: bytes, products, instructions."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from vrtspike.deblurring.models.window_attention import window_attention
from vrtspike.deblurring.models.windows import build_plan, clip_window

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import triton_costs

    return triton_costs


def layout_arguments() -> dict[str, Any]:
    tensors = {"bias": torch.zeros(6, 128, 128), "laid": torch.zeros(7, 128, 128).bfloat16()}
    strides = {"by_head": 128 * 128, "by_query": 128, "by_key": 1, "heads": 6, "factor": 4.0}
    return {**tensors, **strides, "N": 128, "STRIDE": 128, "BLOCK": 32, "num_warps": 4}


def test_each_tensor_is_moved_once_and_every_program_issues_its_code(costs: ModuleType) -> None:
    from kernel_code import compile_kernel

    from vrtspike.deblurring.models.window_attention.triton_kernels import layout_kernel

    grid = (7 * 4 * 4,)
    found = costs.launched(layout_kernel, grid, layout_arguments())
    assert found.moved == 128 * 128 * (6 * 4 + 7 * 2)
    types = {"bias": "*fp32", "laid": "*bf16", "factor": "fp32"}
    types |= dict.fromkeys(("by_head", "by_query", "by_key", "heads"), "i32")
    constants = {"N": 128, "STRIDE": 128, "BLOCK": 32}
    code = compile_kernel(layout_kernel, types, constants, 90, num_warps=4)
    assert found.issued() == (grid[0] * 4 * code.instructions, grid[0] * 4 * code.special)


def test_a_loop_counts_as_often_as_it_runs(
    costs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "window_attention.triton_kernels.layout_kernel"
    from machine_loops import Count

    counts = Count(117, (10, 7)), Count(8, (2, 1))
    monkeypatch.setattr(costs.Code, "counts", lambda _: counts)

    def issued(*trips: float) -> tuple[float, float]:
        monkeypatch.setitem(costs.WORK, name, lambda _: costs.Work(trips))
        from vrtspike.deblurring.models.window_attention.triton_kernels import layout_kernel

        return costs.launched(layout_kernel, (2, 3), layout_arguments()).issued()

    warps = 6 * 4
    assert issued(5, 2) == (warps * (100 + 5 * 10 + 2 * 7), warps * (5 + 5 * 2 + 2 * 1))
    # One loop of the source that the compiler made two of.
    assert issued(4) == (warps * (100 + 4 * 8.5), warps * (5 + 4 * 1.5))


def test_an_unknown_kernel_is_named(costs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from vrtspike.deblurring.models.window_attention.triton_kernels import layout_kernel

    monkeypatch.delitem(costs.WORK, "window_attention.triton_kernels.layout_kernel")
    with pytest.raises(ValueError, match=r"window_attention\.triton_kernels\.layout_kernel"):
        costs.launched(layout_kernel, (1,), layout_arguments())


@pytest.mark.parametrize(
    ("depth", "backward"),
    # Products of a score besides q k: p^T g, g v, ds^T q, ds k; q k and g v once more.
    [(2, {"joint_kernel": 5}), (3, {"gradient_kernel": 5, "bias_kernel": 2})],
)
def test_the_launches_of_an_attention_are_counted_as_they_are_made(
    costs: ModuleType, depth: int, backward: dict[str, int]
) -> None:
    import step_trace

    batch, heads, width, size, window = 2, 2, 16, (depth, 16, 24), (depth, 8, 8)
    with step_trace.without_gpu():
        plan = build_plan(clip_window(size, window, shifted=True, mutual=False), step_trace.DEVICE)
        with torch.device(step_trace.DEVICE):
            shape = (batch, plan.out.numel(), 3 * heads * width)
            qkv = torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)
            tokens = 64 * depth
            bias = torch.randn(heads, tokens, tokens, requires_grad=True)

        def run() -> torch.Tensor:
            return window_attention(qkv, bias, plan, heads, "triton").float().sum()

        model = torch.nn.Module()
        launches = step_trace.trace(model, run, lambda _, name: name).launches
    windows = len(plan.query)
    assert (windows, plan.tokens) == (6, tokens)
    scores = batch * windows * heads * tokens * tokens
    flops: dict[str, float] = {}
    for launch in launches:
        if launch.operation.startswith("window_attention."):
            name = launch.operation.removeprefix("window_attention.")
            flops[name] = flops.get(name, 0) + launch.kernel.flops
    products = {"layout_kernel": 0, "whole_kernel": 2} | backward
    assert flops == {name: 2 * count * scores * width for name, count in products.items()}
    # Windows of one region and the others are launched by themselves, and touch only their tokens.
    forward = [x.kernel.moved for x in launches if x.operation.endswith("whole_kernel")]
    assert len(forward) == 2
    inputs, results = 2 * shape[0] * shape[1] * shape[2], 2 * batch * shape[1] * heads * width
    lse = 4 * batch * windows * heads * tokens
    tables = (
        sum(t.numel() * 4 for t in (plan.query, plan.key, plan.out, plan.regions))
        + 2 * (heads + 1) * tokens**2  # the identity behind the bias
    )
    assert sum(forward) == pytest.approx(inputs + results + lse + tables)
