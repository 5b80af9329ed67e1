"""Every implementation of window attention against the readable definition."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tests.deblurring.models.checks import assert_same, kept_by
from vrtspike.deblurring.models.ops.dispatch import KERNELS, REFERENCE, Compute
from vrtspike.deblurring.models.ops.window_attention import (
    choose_implementation,
    launch_options,
    operation,
    pytorch_attention,
    window_attention,
)
from vrtspike.deblurring.models.ops.window_attention.launch_options import holds_keys
from vrtspike.deblurring.models.ops.window_attention.pytorch_attention import (
    flex_window_attention,
    sdpa_attention,
)
from vrtspike.deblurring.models.ops.window_attention.recompute import recompute_attention
from vrtspike.deblurring.models.ops.window_attention.reference import reference_attention
from vrtspike.deblurring.models.ops.window_attention.windows import (
    WindowPlan,
    build_plan,
    clip_window,
)
from vrtspike.errors import ConfigError

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
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


@pytest.mark.parametrize("attention", [sdpa_attention, recompute_attention])
@pytest.mark.parametrize(("size", "window", "mutual", "shifted"), CASES)
def test_agrees_with_the_definition(attention, size, window, mutual, shifted) -> None:
    qkv, bias, plan = problem(size, window, mutual, shifted)
    inputs = [t for t in (qkv, bias) if t is not None]
    expected = reference_attention(qkv, bias, plan, HEADS)
    found = attention(qkv, bias, plan, HEADS)
    assert_same([found], [expected], inputs)


@pytest.mark.parametrize(("size", "window", "mutual", "shifted"), CASES)
def test_flex_agrees_in_the_forward_pass(size, window, mutual, shifted) -> None:
    qkv, bias, plan = problem(size, window, mutual, shifted)
    with torch.no_grad():
        expected = reference_attention(qkv, bias, plan, HEADS)
        torch.testing.assert_close(flex_window_attention(qkv, bias, plan, HEADS), expected)


@pytest.mark.parametrize("attention", [sdpa_attention, flex_window_attention])
def test_more_problems_than_a_grid_has_rows_are_divided(
    attention, monkeypatch: pytest.MonkeyPatch
) -> None:
    qkv, bias, plan = problem((5, 9, 12), (2, 4, 4), False, True)
    with torch.no_grad():
        expected = reference_attention(qkv, bias, plan, HEADS)
        monkeypatch.setattr(pytorch_attention, "_MOST_PROBLEMS", 7)
        torch.testing.assert_close(attention(qkv, bias, plan, HEADS), expected)


@pytest.mark.parametrize(
    ("size", "shifted", "mutual", "qkv", "bias", "expected"),
    [
        # Scores of the first token: 1 * 2 + 0 and 1 * 3 - 1, equal; of the second: 0 and 0.
        (
            *((1, 1, 2), True, False, [[1.0, 2, 10], [0, 3, 20]]),
            *([[[0.0, -1], [0, 0]]], [15.0, 15]),
        ),
        # The second frame's query looks at the first frame's value and fills the first place.
        ((2, 1, 1), False, True, [[1.0, 1, 7], [1, 1, 9]], None, [7.0, 9]),
        # Tokens 1 and 2 share a window; 3 and 0 meet only through the cyclic shift.
        ((1, 1, 4), True, False, [[0.0, 0, i] for i in range(4)], None, [0.0, 1.5, 1.5, 3]),
    ],
)
def test_the_definition_by_hand(size, shifted, mutual, qkv, bias, expected) -> None:
    window = (size[0], 1, min(size[2], 2))
    plan = build_plan(clip_window(size, window, shifted=shifted, mutual=mutual), CPU)
    scores = None if bias is None else torch.tensor(bias)
    out = reference_attention(torch.tensor([qkv]), scores, plan, 1)
    torch.testing.assert_close(out.flatten(), torch.tensor(expected))


def test_nothing_of_the_size_of_all_scores_is_kept() -> None:
    plan = build_plan(clip_window((2, 32, 32), (2, 8, 8), shifted=True, mutual=False), CPU)
    qkv = torch.randn(1, 2048, 3 * HEADS * WIDTH, requires_grad=True)
    bias = torch.randn(HEADS, 128, 128, requires_grad=True)

    def kept(attention) -> int:
        found = kept_by(lambda: attention(qkv, bias, plan, HEADS)).values()
        return max(tensor.untyped_storage().nbytes() for tensor in found)

    scores = 16 * HEADS * 128 * 128 * 4
    assert kept(reference_attention) >= scores
    assert kept(recompute_attention) < scores / 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_of_half_precision_are_the_operands_and_the_result_alone(dtype: torch.dtype) -> None:
    qkv, bias, plan = problem((5, 9, 12), (2, 4, 4), False, True)
    assert bias is not None
    rounded = qkv.detach().to(dtype)
    exact = reference_attention(rounded.double(), bias, plan, HEADS)
    half = recompute_attention(rounded, bias.float(), plan, HEADS)
    assert half.dtype == dtype
    # Scores in the half type would be off by more than the rounding of the result.
    step = torch.finfo(dtype).eps / 2
    assert ((half.double() - exact).abs() <= 1.01 * step * exact.abs() + 1e-5).all()


@needs_triton
@pytest.mark.parametrize(
    ("name", "device", "dtype", "trusted", "expected"),
    [
        ("auto", "cpu", torch.float32, True, "recompute"),
        ("auto", "cuda", torch.bfloat16, True, "triton"),
        ("auto", "cuda", torch.bfloat16, False, "recompute"),
        ("explicit", "cuda", torch.bfloat16, True, "explicit"),
        ("triton", "cuda", torch.bfloat16, False, "triton"),
        ("flex", "cuda", torch.float32, False, "flex"),
    ],
)
def test_the_best_implementation_is_chosen(
    name: str,
    device: str,
    dtype: torch.dtype,
    trusted: bool,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def uses_kernel(_: object, x: Tensor, *__: object) -> bool:
        return trusted and x.device.type == "cuda"

    monkeypatch.setattr(operation, "uses_kernel", uses_kernel)
    x = SimpleNamespace(device=torch.device(device))
    assert choose_implementation(Compute(name), x, dtype) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "message"),
    [("flash", "there are: auto, explicit"), ("triton", "for CUDA"), ("flex", "needs a CUDA")],
)
def test_impossible_choices_are_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_implementation(Compute(name), torch.zeros(1), torch.float32)


@pytest.mark.parametrize("name", ["explicit", "fused", "recompute"])
def test_the_settings_choose_what_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    qkv, bias, plan = problem((2, 8, 8), (2, 4, 4), False, False)
    monkeypatch.setattr(operation, "IMPLEMENTATIONS", {name: lambda *_: name})
    assert window_attention(qkv, bias, plan, HEADS, Compute(name)) == name


def test_windows_too_large_to_hold_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    # 384 tokens of 32 and 32 numbers are held, one of 16 channels more leaves fewer of them.
    assert holds_keys(384, 16)
    assert holds_keys(384, 20)
    assert not holds_keys(385, 20)
    assert not holds_keys(384, 32)
    assert holds_keys(512, 15)
    monkeypatch.setattr(launch_options, "_MOST_HELD", 0)
    qkv, bias, plan = problem((2, 4, 4), (2, 4, 4), False, False)
    assert bias is not None
    monkeypatch.setattr(operation, "triton_attention", lambda *_: pytest.fail("by kernels"))
    found = window_attention(qkv.half(), bias.float(), plan, HEADS, KERNELS)
    expected = reference_attention(qkv.half().double(), bias, plan, HEADS)
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


def test_a_dropped_sample_may_be_left_out_by_kernels_alone() -> None:
    qkv, bias, plan = problem((2, 4, 4), (2, 4, 4), False, False)
    keep = torch.tensor([0.0, 1.0])
    found = window_attention(qkv, bias, plan, HEADS, REFERENCE, keep)
    torch.testing.assert_close(found, reference_attention(qkv, bias, plan, HEADS))


def test_products_of_the_reference_are_counted() -> None:
    qkv, bias, plan = problem((2, 4, 4), (2, 4, 4), False, False)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        window_attention(qkv, bias, plan, HEADS, REFERENCE)
    # Two samples of one window: scores and weighted values of each head.
    assert counter.get_total_flops() == 2 * HEADS * 2 * (2 * 32 * 32 * WIDTH)
