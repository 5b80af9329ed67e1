"""Compares the kernels of window attention with the reference; in Triton's interpreter on a CPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import torch
import triton
import triton.language as tl
from torch import Tensor

from vrtspike.deblurring.models.ops.comparison import largest, relative_errors
from vrtspike.deblurring.models.ops.window_attention import triton_attention as module
from vrtspike.deblurring.models.ops.window_attention.kernel_parts import token_offsets
from vrtspike.deblurring.models.ops.window_attention.operation import attention_differences, trial
from vrtspike.deblurring.models.ops.window_attention.reference import reference_attention
from vrtspike.deblurring.models.ops.window_attention.triton_attention import triton_attention
from vrtspike.deblurring.models.ops.window_attention.windows import (
    Size3,
    WindowGeometry,
    WindowPlan,
    build_plan,
    clip_window,
)

# Float16 stands for bfloat16, which the interpreter cannot multiply.
HALF = torch.float16
TOLERANCE = 2e-3
CPU = torch.device("cpu")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def plan_of(size: Size3, window: Size3, *, shifted: bool = False, mutual: bool = False):
    return build_plan(clip_window(size, window, shifted=shifted, mutual=mutual), CPU)


def check_geometry(geometry: WindowGeometry, width: int, **kind: bool) -> None:
    """Results and gradients are those of the reference."""
    found = largest(attention_differences(CPU, HALF, geometry, width, **kind))
    print(f"{geometry.window} x {width} {any(geometry.shift)} {kind}: {found:.1e}")
    assert found < TOLERANCE


def check_small_windows() -> None:
    """Shifted, padded, mutual; in the attention along time with and without a bias."""
    for size, window, mutual in (
        ((3, 5, 8), (2, 4, 4), True),
        ((3, 5, 8), (2, 4, 4), False),
        ((6, 2, 3), (6, 1, 1), False),
        ((2, 2, 4), (2, 1, 2), True),
    ):
        geometry = clip_window(size, window, shifted=True, mutual=mutual)
        check_geometry(geometry, 6)
    check_geometry(clip_window((5, 6, 1), (5, 1, 1), shifted=False, mutual=False), 24, biased=False)


def large() -> Iterator[tuple[WindowGeometry, int]]:
    """Maps of two windows along one axis, so that a shift leaves one window of one region."""

    def case(window: Size3, width: int, mutual: bool = False, shifted: bool = True):
        depth, height, side = window
        size = (depth, 2 * height, side)
        return clip_window(size, window, shifted=shifted, mutual=mutual), width

    # 98, 128, 245, 320 and 384 tokens, with the channels of stages 1 to 7 and of stage 8.
    for window in ((2, 7, 7), (2, 8, 8), (5, 7, 7), (5, 8, 8), (6, 8, 8)):
        yield case(window, 16)
    for window in ((2, 8, 8), (5, 7, 7), (5, 8, 8)):
        yield case(window, 20)
    yield case((5, 7, 7), 16, shifted=False)
    # A block that 20 tokens do not fill; one that 64 do.
    yield clip_window((1, 8, 10), (1, 4, 5), shifted=True, mutual=False), 16
    yield case((1, 8, 8), 20)
    # Mutual, so without a bias: 128 and 98 tokens of each frame.
    yield case((2, 16, 8), 16, mutual=True)
    yield case((2, 14, 7), 20, mutual=True)


def check_large() -> None:
    """Windows of several blocks, also of some that no block divides."""
    for geometry, width in large():
        plan = build_plan(geometry, CPU)
        assert any(geometry.shift) == (0 < plan.unmasked < len(plan.query))
        check_geometry(geometry, width, batch=1)


def check_older() -> None:
    """GPUs whose products come from registers, which add the bias one by one."""
    with mock.patch.object(module, "capability_of", return_value=(8, 0)):
        for width in (16, 20):
            for window in ((2, 8, 8), (1, 8, 8)):
                geometry = clip_window((2, 8, 8), window, shifted=False, mutual=False)
                check_geometry(geometry, width, batch=1)


@triton.jit
def _offsets_kernel(positions, found, width, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)
    tl.store(found + rows[:, None], token_offsets(tl.load(positions + rows), width))


def check_offsets() -> None:
    """The offset of a token may exceed 32 bits: 10 million tokens of 360."""
    positions = torch.arange(16, dtype=torch.int32) + 10_000_000
    found = torch.empty(16, dtype=torch.int64)
    _offsets_kernel[(1,)](positions, found, 360, SIZE=16)
    assert torch.equal(found, positions.long() * 360)


def check_dropped(mutual: bool, width: int) -> None:
    """Of a dropped sample nothing is read; its results and gradients are zeros."""
    size: Size3 = (2, 4, 6)
    plan = plan_of(size, (2, 4, 4), shifted=True, mutual=mutual)
    tokens, channels = plan.out.numel(), 2 * width
    qkv = random(2, tokens, 3 * channels).half()
    grad = random(2, tokens, channels, seed=1).half()
    qkv[0] = grad[0] = torch.nan
    bias = None if mutual else random(2, plan.tokens, plan.tokens)
    found, expected = [], []
    for kept, results in ((slice(None), found), (slice(1, None), expected)):
        keep = torch.tensor([0.0, 1.25])[kept]
        leaves = [t.clone().requires_grad_() for t in (qkv[kept], bias) if t is not None]
        out = triton_attention(leaves[0], *(leaves[1:] or [None]), plan, 2, keep)
        results += [out.detach(), *torch.autograd.grad(out, leaves, grad[kept])]
    for whole in found[:2]:
        assert not whole[0].any()
    found[:2] = [whole[1:] for whole in found[:2]]
    assert largest(relative_errors(found, expected)) < 1e-6


def check_float32_bias() -> None:
    """A bias of float32 beside features of half precision, laid out as an embedding leaves it.

    Its gradient is neither rounded to half precision nor copied into another order.
    """
    plan = plan_of((2, 4, 4), (2, 4, 4))
    qkv, grad = random(1, 32, 96).half(), random(1, 32, 32, seed=1).half()
    bias = random(32, 32, 2, seed=2).permute(2, 0, 1).requires_grad_()
    (found,) = torch.autograd.grad(triton_attention(qkv, bias, plan, 2), bias, grad)
    exact = reference_attention(qkv.float(), bias, plan, 2)
    (expected,) = torch.autograd.grad(exact, bias, grad.float())
    assert (found.dtype, found.stride()) == (torch.float32, bias.stride())
    assert largest(relative_errors([found], [expected])) < TOLERANCE


def from_reference(
    qkv: Tensor, bias: Tensor, plan: WindowPlan, size: float = 1.0, sums_beyond: float = 0.0
) -> None:
    """Result and gradients are those of the reference in float32.

    Gradients of the result are about ``size``; some sum of grad * out has to be ``sums_beyond``.
    """
    grad = (size * random(*qkv.shape[:2], 32, seed=1)).half()
    inputs = [qkv.half().requires_grad_(), bias.requires_grad_()]
    exact = [t.detach().float().requires_grad_() for t in inputs]
    out, expected = triton_attention(*inputs, plan, 2), reference_attention(*exact, plan, 2)
    sums = (grad.float() * expected).unflatten(2, (2, 16)).sum(-1).abs()
    assert sums.max() > sums_beyond, "the numbers of this check overflow nothing"
    found = [out, *torch.autograd.grad(out, inputs, grad)]
    wanted = [expected, *torch.autograd.grad(expected, exact, grad.float())]
    assert largest(relative_errors(found, wanted)) < TOLERANCE


def check_large_scores() -> None:
    """20 tokens, a block not full, and scores in the hundreds.

    What stands for queries beyond the last would overflow, if it were taken for a query.
    """
    from_reference(10 * random(1, 20, 96), torch.zeros(2, 20, 20), plan_of((1, 4, 5), (1, 4, 5)))


def check_growing_scores() -> None:
    """128 tokens, the later ones with much larger scores than the first.

    Weights relative to the first keys overflow. Gradients, too: the sums that they need follow.
    """
    qkv = random(1, 128, 96)
    qkv[:, :, :32] *= 4
    qkv[:, 64:, 32:64] *= 6
    scores = torch.einsum("qhc,khc->hqk", *qkv[0].unflatten(1, (3, 2, 16)).unbind(1)[:2]) / 4
    grown = scores[..., 64:].amax(-1) - scores[..., :64].amax(-1)
    assert grown.max() > 15, "the numbers of this check overflow nothing"
    from_reference(qkv, random(2, 128, 128, seed=2), plan_of((2, 8, 8), (2, 8, 8)))


def check_large_gradients() -> None:
    """Sums of grad * out that are beyond float16, of gradients that are not."""
    qkv = random(1, 64, 96)
    qkv[:, :, 64:] += 1
    from_reference(qkv, torch.zeros(2, 64, 64), plan_of((1, 8, 8), (1, 8, 8)), 8000.0, 65504.0)


def check_equal_values() -> None:
    """128 tokens of one value: whom a query attends to changes nothing, so nothing learns from it.

    What is taken off the gradients of the weights has to be exact, not rounded to their type.
    """
    plan = plan_of((2, 8, 8), (2, 8, 8))
    qkv, grad = random(1, 128, 96), random(1, 128, 32, seed=1).half()
    qkv[:, :, 64:] = 3.0
    qkv = qkv.half().requires_grad_()
    out = triton_attention(qkv, torch.zeros(2, 128, 128), plan, 2)
    (found,) = torch.autograd.grad(out, qkv, grad)
    assert found[:, :, :64].float().norm() < 5e-6 * grad.float().norm()


def check_last_part(width: int) -> None:
    """13 windows of each sample in parts of some: the last sums up none that is not asked for.

    They are the first of 15, so that the next one is there, whatever else lies behind it.
    """
    whole = plan_of((1, 20, 12), (1, 4, 4))
    query, key, out = (t.int()[:13] for t in (whole.query, whole.key, whole.out))
    plan = replace(whole, query=query, key=key, out=out, unmasked=13)
    qkv, grad = random(2, 240, 6 * width).half(), random(2, 240, 2 * width, seed=1).half()
    bias = random(2, 16, 16, seed=2).requires_grad_()
    numbers = []
    split = module._bias_launches

    def launches(*arguments):
        for found in split(*arguments):
            numbers.append(found[1])
            yield found

    with (
        mock.patch.object(module, "processors_of", return_value=1),
        mock.patch.object(module, "_bias_launches", launches),
    ):
        (found,) = torch.autograd.grad(triton_attention(qkv, bias, plan, 2), bias, grad)
    ((first, last, share, shares, _),) = numbers
    assert first + shares * share > last, "the windows of this check are those of whole parts"
    asked = torch.zeros(240, 1).index_fill_(0, out.flatten().long(), 1.0)
    exact = reference_attention(qkv.float(), bias, whole, 2)
    (expected,) = torch.autograd.grad(exact, bias, grad.float() * asked)
    assert largest(relative_errors([found], [expected])) < TOLERANCE


def main() -> None:
    if torch.cuda.is_available():
        assert trial(torch.device("cuda"), HALF) < TOLERANCE
        return
    # Memory that nobody has written holds NaN.
    torch.use_deterministic_algorithms(True)
    check_offsets()
    check_small_windows()
    check_dropped(False, 16)
    if "quick" in sys.argv:
        return
    for mutual, width in ((True, 16), (False, 40), (True, 20)):
        check_dropped(mutual, width)
    for check in (
        check_float32_bias,
        check_large_scores,
        check_growing_scores,
        check_equal_values,
        check_large_gradients,
        check_older,
    ):
        check()
    for width in (16, 40):
        check_last_part(width)
    check_large()


if __name__ == "__main__":
    main()
