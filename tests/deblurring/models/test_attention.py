"""Every implementation of window attention against the readable definition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend

from tests.deblurring.models.checks import assert_same, explicit_attention, kept_by
from vrtspike.deblurring.models import attention as implementations
from vrtspike.deblurring.models.attention import (
    relative_position_index,
    sdpa_attention,
    sine_position_bias,
)
from vrtspike.deblurring.models.recomputed_attention import recompute_attention
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import VRTSpike
from vrtspike.deblurring.models.windows import WindowPlan, build_plan, clip_window

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
    expected = explicit_attention(qkv, bias, plan, HEADS)
    found = attention(qkv, bias, plan, HEADS)
    assert_same([found], [expected], inputs)


def test_calls_are_divided_for_the_kernels_of_cuda(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    qkv, bias, plan = problem((5, 9, 12), (2, 4, 4), False, True)
    with torch.no_grad():
        expected = explicit_attention(qkv, bias, plan, HEADS)
        monkeypatch.setattr(implementations, "_MOST_PROBLEMS", 7)
        torch.testing.assert_close(sdpa_attention(qkv, bias, plan, HEADS), expected)
        monkeypatch.setattr(implementations, "_MOST_SCORES", 1)
        torch.testing.assert_close(sdpa_attention(qkv, bias, plan, HEADS), expected)


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
    out = explicit_attention(torch.tensor([qkv]), scores, plan, 1)
    torch.testing.assert_close(out.flatten(), torch.tensor(expected))


def test_nothing_of_the_size_of_all_scores_is_kept() -> None:
    plan = build_plan(clip_window((2, 32, 32), (2, 8, 8), shifted=True, mutual=False), CPU)
    qkv = torch.randn(1, 2048, 3 * HEADS * WIDTH, requires_grad=True)
    bias = torch.randn(HEADS, 128, 128, requires_grad=True)

    def kept(attention) -> int:
        found = kept_by(lambda: attention(qkv, bias, plan, HEADS)).values()
        return sum(tensor.untyped_storage().nbytes() for tensor in found)

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


@pytest.mark.parametrize("name", ["auto", "sdpa", "recompute"])
def test_the_settings_choose_what_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("sdpa", "recompute"):
        result = torch.tensor([len(function)])
        monkeypatch.setattr(implementations, f"{function}_attention", lambda *_, r=result: r)
    qkv, bias, plan = problem((2, 8, 8), (2, 4, 4), False, False)
    found = implementations.window_attention(qkv, bias, plan, HEADS, name)
    assert found.item() == len("recompute" if name == "auto" else name)


def test_the_fused_kernels_of_cuda_take_what_they_get(
    small_vrt_spike: Callable[..., VRTSpike],
    small_vrt: Callable[..., VRT],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They refuse a tensor whose last dimension is not contiguous: all scores would be kept."""
    given: list[Tensor] = []
    plain = functional.scaled_dot_product_attention

    def seen(*tensors: Tensor, attn_mask: Tensor | None = None, scale: float) -> Tensor:
        given.extend((*tensors, *([] if attn_mask is None else [attn_mask])))
        return plain(*tensors, attn_mask=attn_mask, scale=scale)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", seen)
    model = small_vrt_spike(small_vrt(attention="sdpa"))
    model(torch.rand(1, 3, 3, 32, 32), torch.rand(1, 3, 4, 32, 32))
    assert {tensor.stride(-1) for tensor in given} == {1}
    assert any(tensor.requires_grad and tensor.shape[0] == 1 for tensor in given)  # biases


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("width", [16, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sdpa_agrees_on_a_gpu(
    dtype: torch.dtype, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        implementations, "_KERNELS", [SDPBackend.EFFICIENT_ATTENTION]
    )  # or an error
    plan = build_plan(clip_window((6, 16, 24), (6, 8, 8), shifted=True, mutual=False), CPU)
    on_gpu = build_plan(plan.geometry, torch.device("cuda"))
    qkv, bias = torch.randn(1, plan.out.numel(), 6 * width), torch.randn(384, 384, 2)
    bias = bias.permute(2, 0, 1)  # as it comes from its table
    expected = explicit_attention(qkv.to(dtype).float(), bias, plan, 2)
    found = sdpa_attention(qkv.to("cuda", dtype), bias.cuda(), on_gpu, 2).float().cpu()
    assert (found - expected).norm() < 2e-2 * expected.norm()


def test_relative_position_index_by_hand() -> None:
    # Two tokens in a row: distances 0, -1, 1, 0, shifted by one.
    assert relative_position_index((1, 1, 2)).tolist() == [[1, 0], [2, 1]]
    index = relative_position_index((6, 8, 8))
    assert index.shape == (384, 384)
    assert index.max() == 11 * 15 * 15 - 1


def test_sine_position_bias() -> None:
    bias = sine_position_bias(8, 8, 24)
    assert bias.shape == (1, 64, 24)
    grid = bias.view(8, 8, 24)
    # The first half tells rows apart, the second columns.
    assert torch.equal(grid[:, 0, :12], grid[:, 5, :12])
    assert torch.equal(grid[0, :, 12:], grid[5, :, 12:])
