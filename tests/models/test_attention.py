"""Every implementation of window attention against the readable definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.overrides import TorchFunctionMode

from tests.models.checks import assert_same, explicit_attention, kept_by, written_out
from vrtspike.deblurring_settings.model import VRTSettings
from vrtspike.models import attention as implementations
from vrtspike.models import recomputed_attention
from vrtspike.models.attention import (
    WindowAttention,
    attend,
    relative_position_index,
    sine_position_bias,
)
from vrtspike.models.vrt_spike import VRTSpike
from vrtspike.models.windows import windows_of

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


def batch_of(number: int, tokens: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Queries, keys, values and a bias."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, number, tokens, HEADS, WIDTH, dtype=dtype).transpose(2, 3)
    bias = torch.randn(HEADS, tokens, tokens, dtype=torch.promote_types(dtype, torch.float32))
    return [t.requires_grad_() for t in (q, k, v, bias)]


class AttentionCalls(TorchFunctionMode):
    """Record the calls of PyTorch's ``scaled_dot_product_attention`` in a ``with`` block.

    Attributes:
        inputs: queries, keys and values of each call.
        masks: mask of each call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[tuple[Tensor, ...]] = []
        self.masks: list[Tensor | None] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        options = options or {}
        if function is functional.scaled_dot_product_attention:
            self.inputs.append(arguments)
            self.masks.append(options["attn_mask"])
        return function(*arguments, **options)


def again(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    masks = torch.zeros(1, 1, 1)
    return recomputed_attention.recomputed_attention(q, k, v, masks, [len(q)], bias)


@pytest.mark.parametrize("name", ["sdpa", "recompute"])
@pytest.mark.parametrize(("size", "window", "mutual", "shifted"), CASES)
def test_agrees_with_the_definition(monkeypatch, name, size, window, mutual, shifted) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(recomputed_attention, "PIECE_CPU", 3 * HEADS * 16**2)
    settings = VRTSettings(NUM_HEADS=HEADS, ATTENTION=name)
    layer = WindowAttention(8, window, settings, mutual=mutual).double()
    x = torch.randn(2, *size, 8, dtype=torch.float64, requires_grad=True)
    windows = windows_of(x, window, shifted=shifted, mutual=mutual)
    result = layer(x, windows, relative_position_index(window))
    assert_same([result], [explicit_attention(layer, x, shifted=shifted)], [x, *layer.parameters()])


@pytest.mark.parametrize("number", [1, 20])
def test_calls_are_divided_for_the_kernels_of_cuda(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one bias for the whole batch, and with one for each entry."""
    q, k, v, _ = (t.detach() for t in batch_of(20, 16))
    bias = torch.randn(number, HEADS, 16, 16, dtype=torch.float64)
    expected = written_out(q, k, v, bias)
    monkeypatch.setattr(implementations, "MAX_BATCH", 7)
    torch.testing.assert_close(attend(q, k, v, bias), expected)
    monkeypatch.setattr(implementations, "MAX_SCORES", 1)
    torch.testing.assert_close(attend(q, k, v, bias), expected)


def test_no_tensor_of_all_scores_is_kept() -> None:
    inputs = batch_of(16, 128, torch.float32)

    def kept(attention) -> int:
        held = kept_by(lambda: attention(*inputs)).values()
        return sum(t.untyped_storage().nbytes() for t in held)

    scores = 16 * HEADS * 128 * 128 * 4
    assert kept(written_out) >= scores
    assert kept(again) < scores / 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_only_operands_and_result_have_half_precision(dtype: torch.dtype) -> None:
    *operands, bias = (t.detach() for t in batch_of(9, 32, dtype))
    exact = written_out(*(t.double() for t in operands), bias)
    half = again(*operands, bias)
    assert half.dtype == dtype
    # Scores in the half type would be off by more than the rounding of the result.
    step = torch.finfo(dtype).eps / 2
    assert ((half.double() - exact).abs() <= 1.01 * step * exact.abs() + 1e-5).all()


@pytest.mark.parametrize(
    ("name", "learning", "without_gradient"),
    # Self attention has a bias to learn, mutual attention and a pass without gradient have none.
    [("auto", 1, 2), ("sdpa", 2, 2), ("recompute", 0, 0)],
)
def test_the_settings_choose_the_implementation(name, learning: int, without_gradient: int) -> None:
    layer = WindowAttention(8, (2, 4, 4), VRTSettings(NUM_HEADS=2, ATTENTION=name), mutual=True)
    x, index = torch.randn(1, 2, 4, 4, 8), relative_position_index((2, 4, 4))
    windows = windows_of(x, (2, 4, 4), shifted=False, mutual=True)
    with AttentionCalls() as calls:
        layer(x, windows, index)
    assert len(calls.inputs) == learning
    with AttentionCalls() as calls, torch.no_grad():
        layer(x, windows, index)
    assert len(calls.inputs) == without_gradient


def test_the_fused_kernels_of_cuda_take_their_inputs(
    small_vrt_spike: Callable[..., VRTSpike],
) -> None:
    """They refuse a tensor whose last dimension is not contiguous: all scores would be kept."""
    model = small_vrt_spike(attention="sdpa")
    with AttentionCalls() as calls:
        model(torch.rand(1, 3, 3, 32, 32), torch.rand(1, 3, 4, 32, 32))
    assert {tensor.stride(-1) for tensors in calls.inputs for tensor in tensors} == {1}
    masks = [mask for mask in calls.masks if mask is not None]
    assert all(mask.is_contiguous() for mask in masks)
    assert any(mask.requires_grad and len(mask) == 1 for mask in masks)  # biases
    assert any(mask.requires_grad and len(mask) > 1 for mask in masks)  # those at borders


@pytest.mark.parametrize(
    ("mutual", "shifted", "number"), [(False, False, 1), (False, True, 2), (True, True, 3)]
)
def test_all_windows_are_attended_in_few_calls(mutual: bool, shifted: bool, number: int) -> None:
    """Not in one for each of the eight masks of shifted windows, nor for each frame."""
    settings = VRTSettings(NUM_HEADS=HEADS, ATTENTION="sdpa")
    layer = WindowAttention(8, (2, 4, 4), settings, mutual=mutual)
    x = torch.randn(1, 6, 12, 12, 8)
    windows = windows_of(x, (2, 4, 4), shifted=shifted, mutual=mutual)
    assert len(windows.counts) == (8 if shifted else 1)
    with AttentionCalls() as calls:
        layer(x, windows, relative_position_index((2, 4, 4)))
    assert len(calls.inputs) == number


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("width", [16, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sdpa_agrees_on_a_gpu(
    dtype: torch.dtype, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another kernel would be an error.
    monkeypatch.setattr(implementations, "KERNELS", [SDPBackend.EFFICIENT_ATTENTION])
    q, k, v = torch.randn(3, 6, 384, 2, width).to(dtype).transpose(2, 3)
    bias = torch.randn(384, 384, 2).permute(2, 0, 1)  # as it comes from its table
    expected = written_out(q.float(), k.float(), v.float(), bias)
    mask = bias.to("cuda", dtype).contiguous()[None]
    result = attend(*(t.cuda() for t in (q, k, v)), mask).float().cpu()
    assert (result - expected).norm() < 2e-2 * expected.norm()


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
