"""Triton kernels of the forward pass of window attention.

:func:`whole_kernel` has one program for a head of a window, as the backward pass has, where keys
and values of half precision fit into the chip; :func:`forward_kernel` has one for a block of
queries.

Online softmax takes weights relative to the largest score so far, so that every block of keys has
its scores looked through, its maximum handed between threads and the sums scaled: a third of the
instructions. Any number will do that is not too far from the largest score. A program that has all
keys takes the largest score of the first block, and looks at the sums when all is done: where
scores grew by more than what the type of the weights holds, it begins anew, with online softmax.
Windows of several regions have it at once, for the first keys may all be of another region; so have
GPUs whose products come from registers, of which both ways together would need too many.
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

from vrtspike.deblurring.models.window_attention.triton_kernels import (
    LOG2_E,
    biased_scores,
    elements,
    features,
    identity,
    inside,
    laid_bias,
    positions_of,
    powers,
)


@triton.jit
def _add_keys(
    scores, v, unit, top, total, result, D: tl.constexpr, BLOCK_V: tl.constexpr,
    EMPTY: tl.constexpr, RUNNING: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds values, weighted by their scores, to ``result``, and weights to their sum.

    The column of ones sums these if there is one, else ``total``. EMPTY: there are no sums so far.
    RUNNING: weights are relative to the largest score so far, else to that of the first keys.
    """
    new_top = tl.maximum(top, tl.max(scores, 1)) if EMPTY or RUNNING else top
    weights = powers(scores, unit, new_top * unit)
    if RUNNING and not EMPTY:
        shrink = tl.exp2((top - new_top) * unit)
        result = result * shrink[:, None]
        total = total * shrink
    if D == BLOCK_V:
        total += tl.sum(weights, 1)
    result = tl.dot(weights.to(v.dtype), v, result, input_precision=PRECISION)
    return new_top, total, result


@triton.jit
def _sums(total, result, D: tl.constexpr, BLOCK_V: tl.constexpr):
    """The sum of each query's weights."""
    if D < BLOCK_V:
        columns = tl.arange(0, BLOCK_V)[None, :]
        return tl.sum(tl.where(columns == D, result, 0.0), 1)
    else:
        return total


# What the compiler makes of a logarithm is right to the last digit, by 25 instructions; the unit
# that makes exponentials gives it to 22 bits. The interpreter has no such unit.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _log2(x, PRECISION: tl.constexpr):
    if _INTERPRETED or PRECISION == "ieee":
        return tl.log2(x)
    else:
        return libdevice.fast_log2f(x)


@triton.jit
def _finish(
    result, sums, norm, out, lse, place, window, rows, N: tl.constexpr, HEADS: tl.constexpr,
    D: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Stores the attention of some queries and the logarithm of their sums of exponentials."""
    at_out = elements(positions_of(place, window, rows, N, BLOCK_M), HEADS * D)
    pointers = out + at_out + tl.arange(0, BLOCK_V)[None, :]
    power = _log2(sums, PRECISION)
    share = 1.0 / sums if PRECISION == "ieee" else tl.exp2(-power)
    result = result * share[:, None]
    tl.store(pointers, result.to(out.dtype.element_ty), mask=inside(rows, N, D, BLOCK_V))
    tl.store(lse + rows, norm + power, mask=rows < N)


@triton.jit
def _attend(
    rows, values, eye, tile, query, key, place, areas, out, lse, window, scale, N: tl.constexpr,
    STRIDE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HAS_BIAS: tl.constexpr,
    BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention of a block of queries by online softmax; loads keys and values block by block.

    All pointers are those of the sample, head and window.
    """
    near = tl.arange(0, BLOCK_N)
    channels: tl.constexpr = HEADS * D
    unit = scale * LOG2_E
    at_q = elements(positions_of(query, window, rows, N, BLOCK_M), 3 * channels)
    q = features(values, at_q, D, BLOCK_D)
    region_q = tl.load(areas + rows)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    result = tl.zeros((BLOCK_M, BLOCK_V), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns = start + near
        at_k = elements(positions_of(key, window, columns, N, BLOCK_N), 3 * channels)
        k = features(values + channels, at_k, D, BLOCK_D)
        v = features(values + 2 * channels, at_k, D, BLOCK_V, ONES=True)
        laid = laid_bias(tile + rows[:, None] * STRIDE + columns[None, :], HAS_BIAS)
        scores = biased_scores(
            q, k, eye, laid, region_q, areas + columns, columns, scale, N, BLOCK_N, HAS_BIAS,
            BY_PRODUCT, MASKED, PRECISION,
        )  # fmt: skip
        top, total, result = _add_keys(
            scores, v, unit, top, total, result, D, BLOCK_V, N <= BLOCK_N, True, PRECISION
        )
    sums = _sums(total, result, D, BLOCK_V)
    _finish(
        result, sums, top * unit, out, lse, place, window, rows, N, HEADS, D, BLOCK_V, BLOCK_M,
        PRECISION,
    )  # fmt: skip


@triton.jit(do_not_specialize_on_alignment=["keep"])
def forward_kernel(
    qkv, bias, query, key, place, regions, keep, out, lse, first, windows, length, scale,
    N: tl.constexpr, STRIDE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    ALL_HEADS: tl.constexpr, HAS_BIAS: tl.constexpr, BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr,
    KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention of a block of queries of a head of a window, or of all heads.

    The axes of the grid are heads and their blocks, windows from ``first`` on, and samples, so that
    no program divides. ``lse`` gets the logarithm of the sum of exponentials in base 2, (samples,
    windows, heads, N).
    """
    blocks: tl.constexpr = (N + BLOCK_M - 1) // BLOCK_M
    window = first + tl.program_id(1)
    sample = tl.program_id(2).to(tl.int64)
    if KEEP:
        if tl.load(keep + sample) == 0:  # nobody reads what is not written
            return
    channels: tl.constexpr = HEADS * D
    rows = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    values = qkv + sample * length * (3 * channels)
    eye = identity(bias, HEADS, STRIDE, BLOCK_M, BY_PRODUCT)
    areas = regions + window * STRIDE
    into = out + sample * length * channels
    lines = lse + (sample * windows + window) * (HEADS * N)
    if ALL_HEADS:
        for head in range(HEADS):
            _attend(
                rows, values + head * D, eye, bias + head * STRIDE * STRIDE, query, key, place,
                areas, into + head * D, lines + head * N, window, scale, N, STRIDE, HEADS, D,
                BLOCK_D, BLOCK_V, BLOCK_M, BLOCK_N, HAS_BIAS, BY_PRODUCT, MASKED, PRECISION,
            )  # fmt: skip
    else:
        head = tl.program_id(0) // blocks
        _attend(
            rows, values + head * D, eye, bias + head * STRIDE * STRIDE, query, key, place, areas,
            into + head * D, lines + head * N, window, scale, N, STRIDE, HEADS, D, BLOCK_D, BLOCK_V,
            BLOCK_M, BLOCK_N, HAS_BIAS, BY_PRODUCT, MASKED, PRECISION,
        )  # fmt: skip


# Weights that sum to no more can be multiplied by values of up to 2**63. Those of float16 are
# infinite long before, and so is their sum.
_MOST = tl.constexpr(2.0**64)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def whole_kernel(
    qkv, bias, query, key, place, regions, keep, out, lse, first, windows, length, scale,
    N: tl.constexpr, STRIDE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    RUNNING: tl.constexpr, HAS_BIAS: tl.constexpr, BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr,
    KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What :func:`forward_kernel` gives, of all queries of a head of a window.

    Keys and values stay on the chip. The axes of the grid are heads, windows from ``first`` on, and
    samples. RUNNING: by online softmax.
    """
    head = tl.program_id(0)
    window = first + tl.program_id(1)
    sample = tl.program_id(2).to(tl.int64)
    if KEEP:
        if tl.load(keep + sample) == 0:  # nobody reads what is not written
            return
    near_q = tl.arange(0, BLOCK_M)
    near_k = tl.arange(0, BLOCK_N)
    channels: tl.constexpr = HEADS * D
    values = qkv + sample * length * (3 * channels) + head * D
    eye = identity(bias, HEADS, STRIDE, BLOCK_M, BY_PRODUCT)
    tile = bias + head * STRIDE * STRIDE
    areas = regions + window * STRIDE
    into = out + sample * length * channels + head * D
    line = lse + ((sample * windows + window) * HEADS + head) * N
    unit = scale * LOG2_E
    k, v = (), ()
    for i in tl.static_range((N + BLOCK_N - 1) // BLOCK_N):
        at_k = elements(positions_of(key, window, i * BLOCK_N + near_k, N, BLOCK_N), 3 * channels)
        k += (features(values + channels, at_k, D, BLOCK_D),)
        v += (features(values + 2 * channels, at_k, D, BLOCK_V, ONES=True),)
    largest = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, N, BLOCK_M):
        rows = start + near_q
        at_q = elements(positions_of(query, window, rows, N, BLOCK_M), 3 * channels)
        q = features(values, at_q, D, BLOCK_D)
        region_q = tl.load(areas + rows)
        top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK_M,), tl.float32)
        result = tl.zeros((BLOCK_M, BLOCK_V), tl.float32)
        for i in tl.static_range((N + BLOCK_N - 1) // BLOCK_N):
            columns = i * BLOCK_N + near_k
            laid = laid_bias(tile + rows[:, None] * STRIDE + columns[None, :], HAS_BIAS)
            scores = biased_scores(
                q, k[i], eye, laid, region_q, areas + columns, columns, scale, N, BLOCK_N, HAS_BIAS,
                BY_PRODUCT, MASKED, PRECISION,
            )  # fmt: skip
            top, total, result = _add_keys(
                scores, v[i], unit, top, total, result, D, BLOCK_V, i == 0, RUNNING, PRECISION
            )
        sums = _sums(total, result, D, BLOCK_V)
        largest = tl.maximum(largest, sums)
        _finish(
            result, sums, top * unit, into, line, place, window, rows, N, HEADS, D, BLOCK_V,
            BLOCK_M, PRECISION,
        )  # fmt: skip
    if not RUNNING:
        if tl.max(largest, 0) > _MOST:
            for start in range(0, N, BLOCK_M):
                _attend(
                    start + near_q, values, eye, tile, query, key, place, areas, into, line, window,
                    scale, N, STRIDE, HEADS, D, BLOCK_D, BLOCK_V, BLOCK_M, BLOCK_N, HAS_BIAS,
                    BY_PRODUCT, MASKED, PRECISION,
                )  # fmt: skip
