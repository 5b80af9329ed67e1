"""Window attention by our own Triton kernels, for CUDA in half precision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vrtspike.deblurring.models.ops.launch import Options, capability_of, launch, processors_of
from vrtspike.deblurring.models.ops.window_attention.launch_options import (
    Problem,
    bias_options,
    bias_warps,
    forward_options,
    gradient_options,
    packing_options,
)
from vrtspike.deblurring.models.ops.window_attention.windows import WindowPlan

# Of the second and the third axis of a grid.
_MOST_PROGRAMS = 2**16 - 1


@torch.compiler.disable
def triton_attention(
    qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int, keep: Tensor | None = None
) -> Tensor:
    """Window attention whose scores never leave the chip; see :func:`reference_attention`.

    Args:
        qkv: as there, float16 or bfloat16.
        bias: as there; None if ``plan`` is mutual: kernels look for queries and keys of scores that
            have a bias at the same places.
        plan: as there.
        heads: as there.
        keep: (B,) float32; nothing is computed of samples where it is 0: results and gradients of
            ``qkv`` are zeros. None: all are computed.
    """
    out: Tensor = _WindowAttention.apply(qkv, bias, keep, plan, heads)
    return out


class _Windows(NamedTuple):
    """Positions (windows, N) int32, regions (windows, M), and how many hold one region."""

    query: Tensor
    key: Tensor
    place: Tensor
    regions: Tensor
    unmasked: int

    def ranges(self, most: int) -> Iterator[tuple[int, int, bool]]:
        """First and last window of each launch, ``most`` at most; whether it looks at regions."""
        bounds = ((0, self.unmasked, False), (self.unmasked, len(self.place), True))
        for first, last, masked in bounds:
            for start in range(first, last, most):
                yield start, min(start + most, last), masked


class _WindowAttention(torch.autograd.Function):
    """Keeps queries, keys, values, the result and the logarithms of the sums of exponentials."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        qkv: Tensor,
        bias: Tensor | None,
        keep: Tensor | None,
        plan: WindowPlan,
        heads: int,
    ) -> Tensor:
        # Already int32 on CUDA.
        query, key, place = (t.to(torch.int32) for t in (plan.query, plan.key, plan.out))
        windows = _Windows(query, key, place, plan.regions, plan.unmasked)
        qkv = qkv.contiguous()
        out, lse, packed = _forward(qkv, bias, keep, windows, heads)
        ctx.bias = None if bias is None else (bias.dtype, bias.stride(0) == 1)
        ctx.unmasked, ctx.heads = plan.unmasked, heads
        ctx.save_for_backward(qkv, packed, keep, *windows[:4], out, lse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        qkv, packed, keep, query, key, place, regions, out, lse = ctx.saved_tensors
        windows = _Windows(query, key, place, regions, ctx.unmasked)
        results = (out, lse, grad.contiguous())
        grads, sums = _backward(qkv, packed, keep, windows, results, ctx.heads)
        if ctx.bias is None or sums is None:
            return grads, None, None, None, None
        dtype, heads_last = ctx.bias
        grad_bias = _empty_bias(sums, query.shape[1], heads_last)
        torch.sum(sums[:, :, : query.shape[1], : query.shape[1]], 0, out=grad_bias)
        return grads, grad_bias.to(dtype), None, None, None


def _empty_bias(sums: Tensor, tokens: int, heads_last: bool) -> Tensor:
    """(heads, N, N) in the order in memory of the bias, whose gradient then needs no copy."""
    heads = sums.shape[1]
    if heads_last:
        return sums.new_empty(tokens, tokens, heads).permute(2, 0, 1)
    return sums.new_empty(heads, tokens, tokens)


def _problem(qkv: Tensor, windows: _Windows, heads: int, *, biased: bool) -> Problem:
    width = qkv.shape[2] // 3 // heads
    return Problem(windows.query.shape[1], width, heads, biased, capability_of(qkv.device))


def _packed(bias: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """(heads, N, N) of any strides, as the kernels read it, followed by the identity.

    That is (heads + 1, M, M), M a row of whole blocks. Half precision is read twice as fast as
    float32; the sum with the scores is made in float32.
    """
    from vrtspike.deblurring.models.ops.window_attention.kernel_parts import packing_kernel

    heads, tokens, _ = bias.shape
    options = packing_options(tokens)
    stride = options["STRIDE"]
    packed = bias.new_empty(heads + 1, stride, stride, dtype=dtype)
    grid = ((heads + 1) * (stride // options["BLOCK"]) ** 2,)
    launch(packing_kernel, grid, bias, packed, *bias.stride(), heads, width**0.5, **options)
    return packed


def _forward(
    qkv: Tensor, bias: Tensor | None, keep: Tensor | None, windows: _Windows, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Result, logarithms (base 2) of the sums of exponentials, and the packed bias."""
    from vrtspike.deblurring.models.ops.window_attention.forward_kernel import forward_kernel

    batch, length, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    count, tokens = windows.query.shape
    problem = _problem(qkv, windows, heads, biased=bias is not None)
    out = qkv.new_empty(batch, length, channels)
    lse = qkv.new_empty(batch * count, heads, tokens, dtype=torch.float32)
    packed = qkv.new_empty(0) if bias is None else _packed(bias, problem.width, qkv.dtype)
    for first, last, masked in windows.ranges(_MOST_PROGRAMS):
        launch(
            forward_kernel, (heads, last - first, batch),
            qkv, packed, *windows[:4], lse if keep is None else keep, out, lse,
            first, count, length, problem.width**-0.5, KEEP=keep is not None,
            **forward_options(problem, masked=masked),
        )  # fmt: skip
    return out, lse, packed


def _backward(
    qkv: Tensor,
    packed: Tensor,
    keep: Tensor | None,
    windows: _Windows,
    results: tuple[Tensor, Tensor, Tensor],
    heads: int,
) -> tuple[Tensor, Tensor | None]:
    """Gradient of ``qkv``, and that of the bias in parts (parts, heads, M, M) float32.

    ``results`` are the result, :func:`_forward`'s logarithms and the gradient of the result.
    """
    from vrtspike.deblurring.models.ops.window_attention.gradient_kernels import (
        bias_kernel,
        gradient_kernel,
    )

    out, lse, grad = results
    grads = torch.empty_like(qkv)
    problem = _problem(qkv, windows, heads, biased=packed.numel() > 0)
    factors = lse if keep is None else keep
    skips = keep is not None
    delta = torch.empty_like(lse) if problem.biased else lse
    for first, last, masked in windows.ranges(_MOST_PROGRAMS):
        launch(
            gradient_kernel, (heads, last - first, len(qkv)),
            qkv, packed, *windows[:4], factors, out, lse, grad, delta, grads,
            first, len(windows.place), qkv.shape[1], problem.width**-0.5, KEEP=skips,
            **gradient_options(problem, masked=masked),
        )  # fmt: skip
    if not problem.biased:
        return grads, None
    tensors = (qkv, packed, windows.place, windows.regions, factors, lse, grad, delta)
    launches = list(_bias_launches(windows, len(qkv), problem, processors_of(qkv.device)))
    parts = sum(grid[1] for grid, _, _ in launches)
    sums = packed.new_empty(parts, heads, *packed.shape[1:], dtype=torch.float32)
    for grid, numbers, options in launches:
        launch(
            bias_kernel, grid, *tensors, sums, *numbers, len(windows.place),
            qkv.shape[1], problem.width**-0.5, KEEP=skips, **options,
        )  # fmt: skip
    return grads, sums


def _bias_launches(
    windows: _Windows, batch: int, problem: Problem, processors: int
) -> Iterator[tuple[tuple[int, int], tuple[int, ...], Options]]:
    """Launches of ``bias_kernel``, whose programs sum over some windows each.

    Yields:
        Programs for each part of the windows, and parts of all samples, as many as keep a GPU busy;
        first and last window, those of a part, parts of a sample, number of the first; constants
        and options.
    """
    slot = 0
    for first, last, masked in windows.ranges(len(windows.place)):
        options = bias_options(problem, masked=masked)
        blocks = (-(-problem.tokens // options[name]) for name in ("BLOCK_M", "BLOCK_N"))
        tiles = problem.heads * math.prod(blocks)
        programs = bias_warps(options) * processors // options["num_warps"]
        share = -(-(last - first) // max(programs // (tiles * batch), 1))
        shares = -(-(last - first) // share)
        yield (tiles, batch * shares), (first, last, share, shares, slot), options
        slot += batch * shares
