"""Triton kernel of the forward pass of window attention, by online softmax.

Source: Dao et al., 2022, "FlashAttention".
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types. A
# condition that is compiled away stands around one that is not, not joined with it.
# ruff: noqa: ANN001, ANN201, ANN202, SIM102
# Tuples grow block by block while a kernel is compiled.
# mypy: disable-error-code="no-untyped-def,assignment"

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

from vrtspike.deblurring.models.ops.window_attention.kernel_parts import (
    LOG2_E,
    biased_scores,
    load_bias,
    load_head,
    load_identity,
    softmax_weights,
    store_zeros,
    token_offsets,
    valid_elements,
    window_positions,
)


@triton.jit
def _add_keys(scores, v, unit, top, result, FIRST: tl.constexpr):
    """Adds values, weighted by their scores, to ``result``, whose column of ones sums weights.

    Weights are relative to the largest score so far, ``top``. FIRST: there are no sums so far.
    """
    new_top = tl.maximum(top, tl.max(scores, 1))
    weights = softmax_weights(scores, unit, new_top * unit)
    if not FIRST:
        result = result * tl.exp2((top - new_top) * unit)[:, None]
    return new_top, tl.dot(weights.to(v.dtype), v, result)


# What the compiler makes of a logarithm is right to the last digit, by 25 instructions; the unit
# that makes exponentials gives it to 22 bits. The interpreter has no such unit.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _log2(x):
    if _INTERPRETED:
        return tl.log2(x)
    else:
        return libdevice.fast_log2f(x)


@triton.jit
def _finish(
    result, norm, out, lse, place, window, rows, N: tl.constexpr, HEADS: tl.constexpr,
    D: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Stores the attention of some queries and the logarithm of their sums of exponentials."""
    columns = tl.arange(0, BLOCK_V)
    power = _log2(tl.sum(tl.where((columns == D)[None, :], result, 0.0), 1))
    at_out = token_offsets(window_positions(place, window, rows, N, BLOCK_M), HEADS * D)
    result = (result * tl.exp2(-power)[:, None]).to(out.dtype.element_ty)
    tl.store(out + at_out + columns[None, :], result, mask=valid_elements(rows, N, D, BLOCK_V))
    tl.store(lse + rows, norm + power, mask=rows < N)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def forward_kernel(
    qkv, bias, query, key, place, regions, keep, out, lse, first, windows, length, scale,
    N: tl.constexpr, STRIDE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HAS_BIAS: tl.constexpr, BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Attention of all queries of a head of a window, whose keys and values stay on the chip.

    The axes of the grid are heads, windows from ``first`` on, and samples. ``lse`` gets the
    logarithm of the sum of exponentials in base 2, (samples, windows, heads, N).
    """
    head = tl.program_id(0)
    window = first + tl.program_id(1)
    sample = tl.program_id(2).to(tl.int64)
    near_q = tl.arange(0, BLOCK_M)
    near_k = tl.arange(0, BLOCK_N)
    channels: tl.constexpr = HEADS * D
    into = out + sample * length * channels + head * D
    if KEEP:
        if tl.load(keep + sample) == 0:
            for start in range(0, N, BLOCK_M):
                rows = start + near_q
                at = token_offsets(window_positions(place, window, rows, N, BLOCK_M), channels)
                store_zeros(into, at, rows, N, D, BLOCK_D)
            return
    unit = scale * LOG2_E
    values = qkv + sample * length * (3 * channels) + head * D
    eye = load_identity(bias, HEADS, STRIDE, BLOCK_M, BY_PRODUCT)
    tile = bias + head * STRIDE * STRIDE
    areas = regions + window * STRIDE
    line = lse + ((sample * windows + window) * HEADS + head) * N
    k, v = (), ()
    for i in tl.static_range((N + BLOCK_N - 1) // BLOCK_N):
        positions = window_positions(key, window, i * BLOCK_N + near_k, N, BLOCK_N)
        at_k = token_offsets(positions, 3 * channels)
        k += (load_head(values + channels, at_k, D, BLOCK_D),)
        v += (load_head(values + 2 * channels, at_k, D, BLOCK_V, ONES=True),)
    for start in range(0, N, BLOCK_M):
        rows = start + near_q
        at_q = token_offsets(window_positions(query, window, rows, N, BLOCK_M), 3 * channels)
        q = load_head(values, at_q, D, BLOCK_D)
        region_q = tl.load(areas + rows)
        top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
        result = tl.zeros((BLOCK_M, BLOCK_V), tl.float32)
        for i in tl.static_range((N + BLOCK_N - 1) // BLOCK_N):
            columns = i * BLOCK_N + near_k
            near = load_bias(tile + rows[:, None] * STRIDE + columns[None, :], HAS_BIAS)
            scores = biased_scores(
                q, k[i], eye, near, region_q, areas + columns, columns, scale, N, BLOCK_N,
                HAS_BIAS, BY_PRODUCT, MASKED,
            )  # fmt: skip
            top, result = _add_keys(scores, v[i], unit, top, result, i == 0)
        _finish(result, top * unit, into, line, place, window, rows, N, HEADS, D, BLOCK_V, BLOCK_M)
