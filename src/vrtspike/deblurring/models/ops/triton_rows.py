"""Parts of the Triton kernels of token layers: tiles of rows, layer norm, GELU, packed weights.

A tile holds some rows with all their columns, or some of them; its width is a power of two, and
what is beyond the columns is zero.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201
# Tuples grow piece by piece while a kernel is compiled.
# mypy: disable-error-code="no-untyped-def,assignment"

from __future__ import annotations

import triton
import triton.language as tl

# A tile of float32 that was loaded before a loop and is needed after it would take registers all
# through it; it is cheaper read twice. Another hint to the cache keeps the compiler from seeing one
# load in the two.
AGAIN = tl.constexpr("evict_first")
_PIECE = tl.constexpr(32)
_LOG2_E = tl.constexpr(1.4426950408889634)
_LOG2_PEAK = tl.constexpr(-1.3257480647361595)  # of the normal density, 1 / sqrt(2 pi)
# 1 / (1 + 2^-(x (K1 + K2 x^2 + K3 x^4))) fitted to the probability, off by 1.9e-5 at most.
_K1 = tl.constexpr(2.301726)
_K2 = tl.constexpr(0.1061802)
_K3 = tl.constexpr(-0.000911879)


@triton.jit
def load_rows(
    base, first, count, BLOCK: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr,
    EVICTION: tl.constexpr = "",
):  # fmt: skip
    """Rows from ``first`` on of a (rows, C) matrix, in its type; zeros from the ``count``-th on.

    Where a thread reads within the tile is known when it is compiled: no registers for addresses.
    EVICTION is a hint to the cache; :data:`AGAIN` reads what was read before.
    """
    return load_tile(base, first, count, 0, C, BLOCK, C, BLOCK_C, EVICTION)


@triton.jit
def load_packed(base, first, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Rows from ``first`` on of packed weights (rows, WIDTH), which have no ragged tiles."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    return tl.load(base + first * WIDTH + (rows[:, None] * WIDTH + columns[None, :]))


@triton.jit
def store_rows(
    base, first, count, value, BLOCK: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Write what :func:`load_rows` reads."""
    store_tile(base, first, count, 0, C, value, BLOCK, C, BLOCK_C)


@triton.jit
def load_tile(
    base, first, count, start, end, BLOCK: tl.constexpr, STRIDE: tl.constexpr,
    WIDTH: tl.constexpr, EVICTION: tl.constexpr = "",
):  # fmt: skip
    """Columns from ``start`` on of rows from ``first`` on; zeros from column ``end`` on."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    offset = tl.cast(first, tl.int64) * STRIDE + start
    pointers = base + offset + (rows[:, None] * STRIDE + columns[None, :])
    mask = (rows < count)[:, None] & (columns < end - start)[None, :]
    return tl.load(pointers, mask=mask, other=0.0, eviction_policy=EVICTION)


@triton.jit
def store_tile(
    base, first, count, start, end, value, BLOCK: tl.constexpr, STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Write what :func:`load_tile` reads."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    offset = tl.cast(first, tl.int64) * STRIDE + start
    pointers = base + offset + (rows[:, None] * STRIDE + columns[None, :])
    mask = (rows < count)[:, None] & (columns < end - start)[None, :]
    tl.store(pointers, value.to(base.dtype.element_ty), mask=mask)


@triton.jit
def load_vector(base, at, end):
    """Elements ``at`` of a vector as float32; zeros from ``end`` on."""
    return tl.load(base + at, mask=at < end, other=0.0).to(tl.float32)


@triton.jit
def statistics(base, first, places, inside, C: tl.constexpr, EPSILON: tl.constexpr):
    """Mean and reciprocal standard deviation of rows ``first + places`` of a (rows, C) matrix.

    The rows are loaded for it in pieces of some channels, which are added before threads add what
    each has: a row of float32 that is loaded at once lies in all threads of a warp, and half of the
    instructions would hand sums from one to the next.
    """
    columns = tl.arange(0, _PIECE)
    pointers = base + tl.cast(first, tl.int64) * C + (places[:, None] * C + columns[None, :])
    pieces: tl.constexpr = (C + _PIECE - 1) // _PIECE
    loaded = ()
    total = tl.zeros((places.shape[0], _PIECE), tl.float32)
    for piece in tl.static_range(pieces):
        there = inside[:, None] & (columns < C - piece * _PIECE)[None, :]
        x = tl.load(pointers + piece * _PIECE, mask=there, other=0.0).to(tl.float32)
        loaded += (x,)
        total += x
    mean = tl.sum(total, 1) / C
    squares = tl.zeros((places.shape[0], _PIECE), tl.float32)
    for piece in tl.static_range(pieces):
        centred = loaded[piece] - mean[:, None]
        if pieces * _PIECE != C:
            centred = tl.where((columns < C - piece * _PIECE)[None, :], centred, 0.0)
        squares += centred * centred
    return mean, tl.rsqrt(tl.sum(squares, 1) / C + EPSILON)


@triton.jit
def store_moments(base, first, count, mean, rstd, BLOCK: tl.constexpr):
    """Write both of :func:`statistics`, beside each other, for rows from ``first`` on."""
    rows = tl.arange(0, BLOCK)
    pointers = base + tl.cast(first, tl.int64) * 2 + rows * 2
    tl.store(pointers, mean, mask=rows < count)
    tl.store(pointers + 1, rstd, mask=rows < count)


@triton.jit
def load_moments(base, first, count, BLOCK: tl.constexpr):
    """What :func:`store_moments` wrote; zeros from the ``count``-th row on."""
    rows = tl.arange(0, BLOCK)
    pointers = base + tl.cast(first, tl.int64) * 2 + rows * 2
    mean = tl.load(pointers, mask=rows < count, other=0.0)
    return mean, tl.load(pointers + 1, mask=rows < count, other=0.0)


@triton.jit
def standardise(x, mean, rstd):
    """Rows of mean 0 and standard deviation 1; what is beyond the channels is not 0."""
    return tl.fma(
        x,
        tl.broadcast_to(rstd[:, None], x.shape),
        tl.broadcast_to((-mean * rstd)[:, None], x.shape),
    )


@triton.jit
def pack_weights(
    weight, bias, packed, gain, offset, start,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Write some rows of a weight (H, C) into whole tiles, with the layer's bias behind them.

    What takes W (s x + t) + b is W s, and W t + b in two columns that sum to it to twice the digits
    of the type: tokens have ones there (:func:`append_ones`). The rest are zeros.
    """
    columns = tl.arange(0, BLOCK_C)[None, :]
    rows = load_rows(weight, start, H - start, BLOCK_H, C, BLOCK_C).to(tl.float32)
    places = start + tl.arange(0, BLOCK_H)
    shifted = load_vector(bias, places, H) + tl.sum(rows * offset[None, :], 1)
    high = shifted.to(packed.dtype.element_ty).to(tl.float32)
    rows = tl.where(columns == C, high[:, None], rows * gain[None, :])
    rows = tl.where(columns == C + 1, (shifted - high)[:, None], rows)
    store_rows(packed, start, BLOCK_H, rows, BLOCK_H, BLOCK_C, BLOCK_C)


@triton.jit
def append_ones(x, TYPE: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr):
    """Tokens in the type of products, with ones where packed weights have their bias.

    What is beyond meets weights of 0. It may exceed the range of float16 alone, and infinity times
    0 is no number.
    """
    columns = tl.arange(0, BLOCK_C)
    if TYPE == tl.float16:  # noqa: SIM300
        x = tl.where((columns < C)[None, :], x, 0.0)
    return tl.where(((columns == C) | (columns == C + 1))[None, :], 1.0, x).to(TYPE)


@triton.jit
def standardise_backward(grad, hat, rstd, C: tl.constexpr):
    """Gradient of the rows of which ``hat`` is what :func:`standardise` gave.

    ``grad`` is 0 beyond the channels.
    """
    mean_grad = tl.sum(grad, 1) / C
    slope = tl.sum(grad * hat, 1) / C
    return (grad - mean_grad[:, None] - hat * slope[:, None]) * rstd[:, None]


@triton.jit
def normal_distribution(x):
    """The normal distribution's cumulative probability and density, for GELU and its gradient.

    The probability is within 2e-5, a hundredth of the rounding of half precision near 1, by 8
    instructions instead of 25: GELU is what these kernels spend most of their instructions on.
    """
    square = tl.minimum(x * x, 36.0)  # beyond, nothing is left; and the series would turn
    root = tl.rsqrt(1.0 + tl.exp2(-x * (_K1 + square * (_K2 + square * _K3))))
    return root * root, tl.exp2(x * x * (-0.5 * _LOG2_E) + _LOG2_PEAK)
