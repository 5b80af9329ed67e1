"""Parts of the Triton kernels of token layers: layer norm, GELU, weights as products take them."""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# Tuples grow piece by piece while a kernel is compiled.
# mypy: disable-error-code="no-untyped-def,assignment"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_rows, load_vector, store_rows

_PIECE = tl.constexpr(32)
_LOG2_E = tl.constexpr(1.4426950408889634)
_ROOT_OF_HALF = tl.constexpr(0.7071067811865476)
_LOG2_PEAK = tl.constexpr(-1.3257480647361595)  # of the normal density, 1 / sqrt(2 pi)
# Abramowitz and Stegun, 1964, "Handbook of Mathematical Functions", 7.1.26: off by 1.5e-7 at most.
_P = tl.constexpr(0.3275911)
_A1 = tl.constexpr(0.254829592)
_A2 = tl.constexpr(-0.284496736)
_A3 = tl.constexpr(1.421413741)
_A4 = tl.constexpr(-1.453152027)
_A5 = tl.constexpr(1.061405429)
# 1 / (1 + 2^-(x (K1 + K2 x^2 + K3 x^4))) fitted to the probability, off by 1.9e-5 at most.
_K1 = tl.constexpr(2.301726)
_K2 = tl.constexpr(0.1061802)
_K3 = tl.constexpr(-0.000911879)


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
def lay(
    weight, bias, laid, gain, offset, start,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Writes some rows of a weight (H, C) into whole tiles, with the layer's bias behind them.

    What takes W (s x + t) + b is W s, and W t + b in two columns that sum to it to twice the digits
    of the type: tokens have ones there (:func:`with_ones`). The rest are zeros.
    """
    columns = tl.arange(0, BLOCK_C)[None, :]
    rows = load_rows(weight, start, H - start, BLOCK_H, C, BLOCK_C).to(tl.float32)
    places = start + tl.arange(0, BLOCK_H)
    shifted = load_vector(bias, places, H) + tl.sum(rows * offset[None, :], 1)
    high = shifted.to(laid.dtype.element_ty).to(tl.float32)
    rows = tl.where(columns == C, high[:, None], rows * gain[None, :])
    rows = tl.where(columns == C + 1, (shifted - high)[:, None], rows)
    store_rows(laid, start, BLOCK_H, rows, BLOCK_H, BLOCK_C, BLOCK_C)


@triton.jit
def with_ones(x, TYPE: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr):
    """Tokens in the type of products, with ones where weights that were laid have their bias.

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
def _exact_below(x):
    root = tl.abs(x) * _ROOT_OF_HALF
    t = 1.0 / (root * _P + 1.0)
    series = t * ((((t * _A5 + _A4) * t + _A3) * t + _A2) * t + _A1)
    tail = series * tl.exp2(-(root * root * _LOG2_E)) * 0.5
    return tl.where(x < 0, tail, 1.0 - tail)


@triton.jit
def _quick_below(x):
    square = tl.minimum(x * x, 36.0)  # beyond, nothing is left; and the series would turn
    half_as_often = tl.rsqrt(1.0 + tl.exp2(-x * (_K1 + square * (_K2 + square * _K3))))
    return half_as_often * half_as_often


@triton.jit
def normal(x, PRECISION: tl.constexpr):
    """The normal distribution's cumulative probability and density, for GELU and its gradient.

    For features of float32 within 1.5e-7. For those of half precision the probability is within
    2e-5, a hundredth of their rounding near 1, by 8 instructions instead of 25: GELU is what these
    kernels spend most of their instructions on.
    """
    below = _exact_below(x) if PRECISION == "ieee" else _quick_below(x)
    return below, tl.exp2(x * x * (-0.5 * _LOG2_E) + _LOG2_PEAK)
