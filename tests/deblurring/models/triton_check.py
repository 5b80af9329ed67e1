"""Compares the Triton kernels with the definition; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets. With the
argument ``large`` problems of several blocks, also some that no block divides.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import torch
import triton
import triton.language as tl
from torch import Tensor

from vrtspike.deblurring.models.window_attention import triton_attention as module
from vrtspike.deblurring.models.window_attention.agreement import (
    difference_of_kept,
    differences_in,
    largest_difference,
)
from vrtspike.deblurring.models.window_attention.explicit import explicit_attention
from vrtspike.deblurring.models.window_attention.triton_attention import triton_attention
from vrtspike.deblurring.models.window_attention.triton_kernels import elements
from vrtspike.deblurring.models.windows import (
    Size3,
    WindowGeometry,
    WindowPlan,
    build_plan,
    clip_window,
)

# Float16 stands for bfloat16, which the interpreter cannot multiply.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3}
CPU = torch.device("cpu")
Case = tuple[WindowGeometry, int, torch.dtype]


def large() -> Iterator[Case]:
    """Maps of two windows along one axis, so that a shift leaves one window of one region."""

    def case(window: Size3, width: int, dtype: torch.dtype, mutual: bool, shifted: bool) -> Case:
        depth, height, side = window
        geometry = clip_window((depth, 2 * height, side), window, shifted=shifted, mutual=mutual)
        return geometry, width, dtype

    half = torch.float16
    # 128, 245, 320 and 384 tokens, with the channels of stages 1 to 7 and of stage 8.
    for window in ((2, 8, 8), (5, 7, 7), (5, 8, 8), (6, 8, 8)):
        yield case(window, 16, half, False, True)
    for window in ((2, 8, 8), (5, 7, 7), (5, 8, 8)):
        yield case(window, 20, half, False, True)
    yield case((5, 7, 7), 16, half, False, False)
    # One block with a bias, of so few windows that a program has one head, and of more.
    for rows in (1, 4):
        geometry = clip_window((1, 8 * rows, 8), (1, 8, 8), shifted=False, mutual=False)
        yield geometry, 20, half
    # 20 tokens, a block not full, for the kernel of all gradients.
    yield clip_window((1, 8, 10), (1, 4, 5), shifted=True, mutual=False), 16, half
    # Mutual, so without a bias: 128 and 98 tokens.
    yield case((2, 16, 8), 16, half, True, True)
    yield case((2, 14, 7), 20, half, True, True)
    # Smaller blocks, so more of them.
    yield case((2, 8, 8), 16, torch.float32, False, True)
    yield case((5, 7, 7), 20, torch.float32, False, True)
    yield case((3, 8, 8), 16, torch.float32, False, True)
    yield case((2, 14, 7), 16, torch.float32, True, True)


def check_large() -> float:
    """Largest difference over its tolerance."""
    worst = 0.0
    for geometry, width, dtype in large():
        plan = build_plan(geometry, CPU)
        assert any(geometry.shift) == (0 < plan.unmasked < len(plan.query))
        found = differences_in(triton_attention, CPU, dtype, geometry, width, batch=1)
        print(f"{geometry.window} x {width} {dtype} {any(geometry.shift)}: {max(found):.1e}")
        worst = max(worst, *(f / TOLERANCES[dtype] if f == f else math.inf for f in found))
    return worst


@triton.jit
def _elements_kernel(positions, found, width, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)
    tl.store(found + rows[:, None], elements(tl.load(positions + rows), width))


def check_offsets() -> float:
    """Infinity unless the offset of a token may exceed 32 bits: 10 million tokens of 360."""
    positions = torch.arange(16, dtype=torch.int32) + 10_000_000
    found = torch.empty(16, dtype=torch.int64)
    _elements_kernel[(1,)](positions, found, 360, SIZE=16)
    return 0.0 if torch.equal(found, positions.long() * 360) else math.inf


def check_mixed_types() -> float:
    """A bias of float32 beside features of half precision, laid out as an embedding leaves it.

    Its gradient is neither rounded to half precision nor copied into another order.
    """
    plan = build_plan(clip_window((2, 4, 4), (2, 4, 4), shifted=False, mutual=False), CPU)
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(1, 32, 96, generator=generator).half()
    bias = torch.randn(32, 32, 2, generator=generator).permute(2, 0, 1).requires_grad_()
    grad = torch.randn(1, 32, 32, generator=generator).half()
    (found,) = torch.autograd.grad(triton_attention(qkv, bias, plan, 2), bias, grad)
    exact = explicit_attention(qkv.float(), bias, plan, 2)
    (expected,) = torch.autograd.grad(exact, bias, grad.float())
    if found.dtype != torch.float32 or found.stride() != bias.stride():
        return math.inf
    return ((found - expected).norm() / expected.norm()).item() / TOLERANCES[torch.float16]


def check_large_scores() -> float:
    """20 tokens, a block not full, and scores in the hundreds.

    What stands for queries beyond the last would overflow, if it were taken for a query.
    """
    plan = build_plan(clip_window((1, 4, 5), (1, 4, 5), shifted=False, mutual=False), CPU)
    generator = torch.Generator().manual_seed(0)
    qkv = 10 * torch.randn(1, 20, 96, generator=generator)
    inputs = [qkv.requires_grad_(), torch.zeros(2, 20, 20, requires_grad=True)]
    found, expected = (
        torch.autograd.grad(attention(*inputs, plan, 2).sum(), inputs)
        for attention in (triton_attention, explicit_attention)
    )
    differences = [(f - e).norm() / e.norm() for f, e in zip(found, expected, strict=True)]
    worst = torch.stack(differences).max().item()  # NaN where any is
    return worst / 1e-3 if worst == worst else math.inf


def check_growing_scores() -> float:
    """128 tokens in half precision, the later ones with much larger scores than the first.

    Weights relative to the first keys overflow. Gradients, too: the sums that they need follow.
    """
    plan = build_plan(clip_window((2, 8, 8), (2, 8, 8), shifted=False, mutual=False), CPU)
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(1, 128, 96, generator=generator)
    qkv[:, :, :32] *= 4
    qkv[:, 64:, 32:64] *= 6
    scores = torch.einsum("qhc,khc->hqk", *qkv[0].unflatten(1, (3, 2, 16)).unbind(1)[:2]) / 4
    grown = scores[..., 64:].amax(-1) - scores[..., :64].amax(-1)
    assert grown.max() > 15, "the numbers of this check overflow nothing"
    return difference_from_exact(qkv, torch.randn(2, 128, 128, generator=generator), plan, 1.0)


def check_large_gradients() -> float:
    """Sums of grad * out that are beyond float16, of gradients that are not."""
    plan = build_plan(clip_window((1, 8, 8), (1, 8, 8), shifted=False, mutual=False), CPU)
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(1, 64, 96, generator=generator)
    qkv[:, :, 64:] += 1
    return difference_from_exact(qkv, torch.zeros(2, 64, 64), plan, 8000.0, sums_beyond=65504.0)


def difference_from_exact(
    qkv: Tensor, bias: Tensor, plan: WindowPlan, size: float, sums_beyond: float = 0.0
) -> float:
    """Difference in float16, of result and gradients, from the definition in float32.

    Gradients of the result are about ``size``; some sum of grad * out has to be ``sums_beyond``.
    """
    generator = torch.Generator().manual_seed(1)
    grad = (size * torch.randn(*qkv.shape[:2], 32, generator=generator)).half()
    inputs = [qkv.half().requires_grad_(), bias.requires_grad_()]
    exact = [t.detach().float().requires_grad_() for t in inputs]
    out, expected = triton_attention(*inputs, plan, 2), explicit_attention(*exact, plan, 2)
    sums = (grad.float() * expected).unflatten(2, (2, 16)).sum(-1).abs()
    assert sums.max() > sums_beyond, "the numbers of this check overflow nothing"
    pairs = [
        (out, expected),
        *zip(
            torch.autograd.grad(out, inputs, grad),
            torch.autograd.grad(expected, exact, grad.float()),
            strict=True,
        ),
    ]
    shares = [((a.float() - b).norm() / b.norm()).item() for a, b in pairs]
    return max(s / TOLERANCES[torch.float16] if s == s else math.inf for s in shares)


def check_last_share() -> float:
    """13 windows of each sample in shares of two: the last sums up none that is not asked for.

    They are the first of 15, so that the next one is there, whatever else lies behind it.
    """
    whole = build_plan(clip_window((1, 20, 12), (1, 4, 4), shifted=False, mutual=False), CPU)
    query, key, out = (t.int()[:13] for t in (whole.query, whole.key, whole.out))
    plan = replace(whole, query=query, key=key, out=out, unmasked=13)
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(2, 240, 96, generator=generator).half()
    bias = torch.randn(2, 16, 16, generator=generator).requires_grad_()
    grad = torch.randn(2, 240, 32, generator=generator).half()
    with mock.patch.object(module, "_summing", wraps=module._summing) as summing:
        (found,) = torch.autograd.grad(triton_attention(qkv, bias, plan, 2), bias, grad)
    (launch,) = module._summing(*summing.call_args.args)
    first, last, share, shares, _ = launch.numbers
    assert first + shares * share > last, "the windows of this check are those of whole shares"
    asked = torch.zeros(240, 1).index_fill_(0, out.flatten().long(), 1.0)
    exact = explicit_attention(qkv.float(), bias, whole, 2)
    (expected,) = torch.autograd.grad(exact, bias, grad.float() * asked)
    share_of_norm = ((found - expected).norm() / expected.norm()).item()
    return share_of_norm / TOLERANCES[torch.float16] if share_of_norm == share_of_norm else math.inf


def check_equal_values() -> float:
    """128 tokens of one value: whom a query attends to changes nothing, so nothing learns from it.

    What is taken off the gradients of the weights has to be exact, not rounded to their type.
    """
    plan = build_plan(clip_window((2, 8, 8), (2, 8, 8), shifted=False, mutual=False), CPU)
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(1, 128, 96, generator=generator)
    qkv[:, :, 64:] = 3.0
    qkv = qkv.half().requires_grad_()
    grad = torch.randn(1, 128, 32, generator=generator).half()
    out = triton_attention(qkv, torch.zeros(2, 128, 128), plan, 2)
    (found,) = torch.autograd.grad(out, qkv, grad)
    share = (found[:, :, :64].float().norm() / grad.float().norm()).item()
    return share / 5e-6 if share == share else math.inf


def check_older() -> float:
    """Of GPUs whose products come from registers, which add the bias one by one."""
    found: list[float] = []
    with mock.patch.object(module, "_capability", return_value=(8, 0)):
        for width in (16, 20):
            geometry = clip_window((2, 8, 8), (2, 8, 8), shifted=False, mutual=False)
            found += differences_in(triton_attention, CPU, torch.float16, geometry, width, batch=1)
    return max(f / TOLERANCES[torch.float16] if f == f else math.inf for f in found)


def check_left_out() -> float:
    """A sample whose branch is dropped, in types of which the windows hold several blocks."""
    # Memory that nobody has written holds NaN.
    torch.use_deterministic_algorithms(True)
    found = {dtype: difference_of_kept(triton_attention, CPU, dtype) for dtype in TOLERANCES}
    return max(f / TOLERANCES[dtype] if f == f else math.inf for dtype, f in found.items())


def main() -> int:
    if torch.cuda.is_available():
        found = largest_difference(triton_attention, torch.device("cuda"), torch.float32)
        worst = found / TOLERANCES[torch.float32]
    elif "large" in sys.argv:
        worst = check_large()
    else:
        # Small windows: the interpreter is slow. The last is that of the attention along time,
        # whose bias is the score of the distance in time.
        kinds = (
            ((3, 5, 8), (((2, 4, 4), True), ((6, 4, 4), False))),
            ((3, 2, 3), (((6, 1, 1), False),)),
        )
        worst = max(
            largest_difference(triton_attention, CPU, torch.float32, size, windows)
            for size, windows in kinds
        )
        others = (check_offsets(), check_mixed_types(), check_large_scores(), check_left_out())
        others += (check_growing_scores(), check_equal_values(), check_large_gradients())
        others += (check_older(), check_last_share())
        worst = max(worst / TOLERANCES[torch.float32], *others)
    print(f"largest difference: {worst:.2e} of what is tolerated")
    return int(not worst < 1)


if __name__ == "__main__":
    sys.exit(main())
