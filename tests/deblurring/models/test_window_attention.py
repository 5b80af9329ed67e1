"""Every implementation of window attention against the readable definition."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule

from vrtspike.deblurring.models.window_attention import choose_implementation, window_attention
from vrtspike.deblurring.models.window_attention.explicit import explicit_attention
from vrtspike.deblurring.models.window_attention.flex import flex_window_attention, generator
from vrtspike.deblurring.models.window_attention.fused import fused_attention
from vrtspike.deblurring.models.window_attention.recompute import recompute_attention
from vrtspike.deblurring.models.window_attention.triton_attention import triton_attention
from vrtspike.deblurring.models.windows import WindowPlan, build_plan, clip_window
from vrtspike.errors import ConfigError

CPU = torch.device("cpu")
HEADS = 2
WIDTH = 6
SIZES = ((5, 9, 12), (6, 4, 8), (1, 3, 9))
# The last is the attention along time of the spike branch.
WINDOWS = (((2, 4, 4), True), ((2, 4, 4), False), ((6, 8, 8), False), ((6, 1, 1), False))
CASES = [
    pytest.param(size, window, mutual, shifted, id=f"{size}-{window}-{mutual=}-{shifted=}")
    for size in SIZES
    for window, mutual in WINDOWS
    for shifted in (False, True)
]


def problem(
    size: tuple[int, int, int], window: tuple[int, int, int], mutual: bool, shifted: bool
) -> tuple[Tensor, Tensor | None, WindowPlan]:
    torch.manual_seed(0)
    plan = build_plan(clip_window(size, window, shifted=shifted, mutual=mutual), CPU)
    length = plan.out.numel()
    qkv = torch.randn(2, length, 3 * HEADS * WIDTH, dtype=torch.float64, requires_grad=True)
    if mutual:
        return qkv, None, plan
    shape = (HEADS, plan.tokens, plan.tokens)
    return qkv, torch.randn(shape, dtype=torch.float64, requires_grad=True), plan


def test_kernels_know_no_bias_of_mutual_attention() -> None:
    qkv, _, plan = problem((2, 4, 4), (2, 4, 4), True, False)
    bias = torch.zeros(HEADS, plan.tokens, plan.tokens)
    with pytest.raises(ValueError, match="no bias here"):
        triton_attention(qkv, bias, plan, HEADS)


@pytest.mark.parametrize("attention", [fused_attention, recompute_attention])
@pytest.mark.parametrize(("size", "window", "mutual", "shifted"), CASES)
def test_agrees_with_the_definition(attention, size, window, mutual, shifted) -> None:
    qkv, bias, plan = problem(size, window, mutual, shifted)
    inputs = [t for t in (qkv, bias) if t is not None]
    expected = explicit_attention(qkv, bias, plan, HEADS)
    found = attention(qkv, bias, plan, HEADS)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    )


@pytest.mark.parametrize(("size", "window", "mutual", "shifted"), CASES)
def test_flex_agrees_in_the_forward_pass(size, window, mutual, shifted) -> None:
    qkv, bias, plan = problem(size, window, mutual, shifted)
    with torch.no_grad():
        expected = explicit_attention(qkv, bias, plan, HEADS)
        torch.testing.assert_close(flex_window_attention(qkv, bias, plan, HEADS), expected)


@pytest.mark.slow
def test_flex_compiles_every_size() -> None:
    graphs = 0
    torch.compiler.reset()  # graphs of other tests

    def counting(graph: GraphModule, _: object) -> GraphModule:
        nonlocal graphs
        graphs += 1
        return graph

    sizes = range(1, 11)
    with torch.no_grad():
        for windows in sizes:
            x = torch.rand(windows, 1, 4, 16)
            generator(counting)(x, x, x, score_mod=lambda score, *_: score * 2)
    assert graphs == len(sizes)


def test_gradients_are_those_of_the_function() -> None:
    qkv, bias, plan = problem((2, 3, 4), (2, 2, 2), False, True)
    assert torch.autograd.gradcheck(
        lambda x, b: recompute_attention(x, b, plan, HEADS), (qkv, bias), fast_mode=True
    )


def test_definition_on_a_window_by_hand() -> None:
    # One window of two tokens and one head of one channel: softmax over two scores.
    plan = build_plan(clip_window((1, 1, 2), (1, 1, 2), shifted=True, mutual=False), CPU)
    qkv = torch.tensor([[[1.0, 2.0, 10.0], [0.0, 3.0, 20.0]]])
    bias = torch.tensor([[[0.0, -1.0], [0.0, 0.0]]])
    out = explicit_attention(qkv, bias, plan, 1)
    # Scores of the first token: 1 * 2 + 0 and 1 * 3 - 1, equal; of the second: 0 and 0.
    torch.testing.assert_close(out, torch.tensor([[[15.0], [15.0]]]))


def test_mutual_attention_sees_the_other_frame_only() -> None:
    plan = build_plan(clip_window((2, 1, 1), (2, 1, 1), shifted=False, mutual=True), CPU)
    qkv = torch.tensor([[[1.0, 1.0, 7.0], [1.0, 1.0, 9.0]]])
    out = explicit_attention(qkv, None, plan, 1)
    # The second frame's query looks at the first frame's value and fills the first place.
    torch.testing.assert_close(out, torch.tensor([[[7.0], [9.0]]]))


def test_masked_tokens_do_not_see_each_other() -> None:
    plan = build_plan(clip_window((1, 1, 4), (1, 1, 2), shifted=True, mutual=False), CPU)
    qkv = torch.zeros(1, 4, 3)
    qkv[0, :, 2] = torch.arange(4.0)
    out = explicit_attention(qkv, None, plan, 1)
    # Tokens 1 and 2 share a window; 3 and 0 meet only through the cyclic shift.
    torch.testing.assert_close(out.flatten(), torch.tensor([0.0, 1.5, 1.5, 3.0]))


def test_nothing_of_the_size_of_all_scores_is_kept() -> None:
    plan = build_plan(clip_window((2, 32, 32), (2, 8, 8), shifted=True, mutual=False), CPU)
    qkv = torch.randn(1, 2048, 3 * HEADS * WIDTH, requires_grad=True)
    bias = torch.randn(HEADS, 128, 128, requires_grad=True)

    def kept(attention) -> int:
        largest = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal largest
            largest = max(largest, tensor.untyped_storage().nbytes())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            attention(qkv, bias, plan, HEADS)
        return largest

    scores = 16 * HEADS * 128 * 128 * 4
    assert kept(explicit_attention) >= scores
    assert kept(recompute_attention) < scores / 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_of_half_precision_are_the_operands_and_the_result_alone(dtype: torch.dtype) -> None:
    qkv, bias, plan = problem((5, 9, 12), (2, 4, 4), False, True)
    assert bias is not None
    rounded = qkv.detach().to(dtype)
    exact = explicit_attention(rounded.double(), bias, plan, HEADS)
    half = recompute_attention(rounded, bias.float(), plan, HEADS)
    assert half.dtype == dtype
    # Scores in the half type would be off by more than the rounding of the result.
    step = torch.finfo(dtype).eps / 2
    assert ((half.double() - exact).abs() <= 1.01 * step * exact.abs() + 1e-5).all()


def test_the_best_implementation_is_chosen() -> None:
    assert choose_implementation("auto", CPU, torch.float32) == "recompute"
    assert choose_implementation("explicit", CPU, torch.float32) == "explicit"
    if find_spec("triton"):
        assert choose_implementation("triton", torch.device("cuda"), torch.bfloat16) == "triton"


@pytest.mark.parametrize(("name", "message"), [("flash", "explicit"), ("triton", "CUDA")])
def test_impossible_choices_are_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_implementation(name, CPU, torch.float32)


def test_the_name_selects() -> None:
    qkv, bias, plan = problem((2, 8, 8), (2, 4, 4), False, False)
    torch.testing.assert_close(
        window_attention(qkv, bias, plan, HEADS, "explicit"),
        window_attention(qkv, bias, plan, HEADS),
    )


@pytest.mark.parametrize("mutual", [False, True])
def test_triton_kernels_are_traced_without_data(mutual: bool) -> None:
    with FakeTensorMode():
        geometry = clip_window((5, 14, 14), (2, 7, 7), shifted=True, mutual=mutual)
        plan = build_plan(geometry, CPU)
        qkv = torch.empty(2, plan.out.numel(), 96, dtype=torch.bfloat16, requires_grad=True)
        # As an embedding leaves it: the heads of a pair of tokens beside each other.
        rows = torch.empty(98, 98, 2, requires_grad=True)
        bias = None if mutual else rows.permute(2, 0, 1)
        out = triton_attention(qkv, bias, plan, 2)
        out.sum().backward()
        assert (out.shape, out.dtype) == ((2, plan.out.numel(), 32), torch.bfloat16)
        assert qkv.grad is not None
        assert (qkv.grad.shape, qkv.grad.dtype) == (qkv.shape, torch.bfloat16)
        if not mutual:
            assert rows.grad is not None
            assert (rows.grad.shape, rows.grad.dtype) == (rows.shape, torch.float32)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
@pytest.mark.timeout(600)
@pytest.mark.endurance
@pytest.mark.parametrize("problems", ["small", "large"])
def test_triton_kernels_in_the_interpreter(problems: str) -> None:
    check = Path(__file__).with_name("triton_check.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, str(check), problems]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_triton_kernels_on_the_device() -> None:
    check = Path(__file__).with_name("triton_check.py")
    done = subprocess.run([sys.executable, str(check)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
