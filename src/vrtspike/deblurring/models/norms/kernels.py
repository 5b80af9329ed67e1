"""Triton kernels of layer norms; :mod:`.triton_norms` calls them.

A program takes some rows with all their K channels. FOLDED: a row are the four pixels of a block
of 2 x 2, by column and then by row, of pictures that are ``width`` pixels wide.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_rows, load_tile, load_vector, store_tile


@triton.jit
def _places(
    first, width, K: tl.constexpr, FOLDED: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Where the channels of rows lie in ``x``, (BLOCK, BLOCK_K)."""
    row = first.to(tl.int64) + tl.arange(0, BLOCK)
    channel = tl.arange(0, BLOCK_K)
    if FOLDED:
        quarter: tl.constexpr = K // 4
        half = width // 2
        block_row = row // half
        start = 2 * block_row * width + 2 * (row - block_row * half)
        part = channel // quarter
        right = part // 2
        channel += (((part - 2 * right) * width + right) - part) * quarter
        return start[:, None] * quarter + channel[None, :]
    return row[:, None] * K + channel[None, :]


@triton.jit
def _normal(x, places, mask, K: tl.constexpr, EPSILON: tl.constexpr):
    """Rows of mean zero and deviation one, and what their deviation was divided by."""
    value = tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
    value = tl.where(mask, value - tl.sum(value, 1)[:, None] * (1 / K), 0.0)
    factor = tl.rsqrt(tl.sum(value * value, 1) * (1 / K) + EPSILON)
    return value * factor[:, None], factor


@triton.jit
def norm_kernel(
    x, scale, shift, beside, out, rows, width,
    K: tl.constexpr, FOLDED: tl.constexpr, BESIDE: tl.constexpr, EPSILON: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """``out`` (rows, K, or 2 K if BESIDE)."""
    first = tl.program_id(0) * BLOCK
    count = rows - first
    channel = tl.arange(0, BLOCK_K)
    mask = (tl.arange(0, BLOCK) < count)[:, None] & (channel < K)[None, :]
    places = _places(first, width, K, FOLDED, BLOCK, BLOCK_K)
    normed, _ = _normal(x, places, mask, K, EPSILON)
    value = normed * load_vector(scale, channel, K)[None, :] + load_vector(shift, channel, K)[None]
    stride: tl.constexpr = 2 * K if BESIDE else K
    store_tile(out, first, count, 0, K, value, BLOCK, stride, BLOCK_K)
    if BESIDE:
        other = load_rows(beside, first, count, BLOCK, K, BLOCK_K)
        store_tile(out + K, first, count, 0, K, other, BLOCK, stride, BLOCK_K)


@triton.jit
def norm_gradient_kernel(
    grad, through, x, scale, grad_x, partial, rows, width,
    K: tl.constexpr, FOLDED: tl.constexpr, BESIDE: tl.constexpr, THROUGH: tl.constexpr,
    EPSILON: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """``grad_x`` from ``grad``, which has the rows of the result; if THROUGH also that is added.

    A program takes TILES tiles, one below the other, and writes their part of the gradients of
    scale and shift to its line of ``partial`` (., 2 K).
    """
    channel = tl.arange(0, BLOCK_K)
    factors = load_vector(scale, channel, K)[None, :]
    of_scale = tl.zeros([BLOCK, BLOCK_K], tl.float32)
    of_shift = tl.zeros([BLOCK, BLOCK_K], tl.float32)
    stride: tl.constexpr = 2 * K if BESIDE else K
    for number in range(TILES):
        first = (tl.program_id(0) * TILES + number) * BLOCK
        count = rows - first
        mask = (tl.arange(0, BLOCK) < count)[:, None] & (channel < K)[None, :]
        places = _places(first, width, K, FOLDED, BLOCK, BLOCK_K)
        normed, factor = _normal(x, places, mask, K, EPSILON)
        g = load_tile(grad, first, count, 0, K, BLOCK, stride, BLOCK_K).to(tl.float32)
        of_scale += g * normed
        of_shift += g
        g *= factors
        along = tl.sum(g * normed, 1)[:, None] * (1 / K)
        g = (g - tl.sum(g, 1)[:, None] * (1 / K) - normed * along) * factor[:, None]
        if THROUGH:
            g += tl.load(through + places, mask=mask, other=0.0).to(tl.float32)
        tl.store(grad_x + places, g.to(grad_x.dtype.element_ty), mask=mask)
    line = partial + tl.program_id(0).to(tl.int64) * 2 * K + channel
    tl.store(line, tl.sum(of_scale, 0), mask=channel < K)
    tl.store(line + K, tl.sum(of_shift, 0), mask=channel < K)
