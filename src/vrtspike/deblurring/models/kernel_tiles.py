"""Tiles of rows that Triton kernels load and store.

A tile holds some rows with all their columns, or some of them; its width is a power of two, and
what is beyond the columns is zero.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_rows(base, first, count, BLOCK: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows from ``first`` on of a (rows, C) matrix, in its type; zeros from the ``count``-th on.

    Where a thread reads within the tile is known when it is compiled: no registers for addresses.
    """
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, BLOCK_C)
    pointers = base + tl.cast(first, tl.int64) * C + (rows[:, None] * C + columns[None, :])
    return tl.load(pointers, mask=(rows < count)[:, None] & (columns < C)[None, :], other=0.0)


@triton.jit
def load_whole(base, first, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Rows from ``first`` on of a (rows, WIDTH) matrix of whole tiles."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    return tl.load(base + first * WIDTH + (rows[:, None] * WIDTH + columns[None, :]))


@triton.jit
def load_rows_again(
    base, first, count, BLOCK: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr
):
    """What :func:`load_rows` gives, as float32, for the last time.

    A tile of float32 that was loaded before a loop and is needed after it would take registers all
    through it; it is cheaper read twice. Another hint to the cache keeps the compiler from seeing
    one load in the two.
    """
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, BLOCK_C)
    pointers = base + tl.cast(first, tl.int64) * C + (rows[:, None] * C + columns[None, :])
    mask = (rows < count)[:, None] & (columns < C)[None, :]
    return tl.load(pointers, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)


@triton.jit
def store_rows(
    base, first, count, value, BLOCK: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Write what :func:`load_rows` reads."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, BLOCK_C)
    pointers = base + tl.cast(first, tl.int64) * C + (rows[:, None] * C + columns[None, :])
    mask = (rows < count)[:, None] & (columns < C)[None, :]
    tl.store(pointers, value.to(base.dtype.element_ty), mask=mask)


@triton.jit
def load_tile(
    base, first, count, start, end, BLOCK: tl.constexpr, STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Columns from ``start`` on of rows from ``first`` on; zeros from column ``end`` on."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    offset = tl.cast(first, tl.int64) * STRIDE + start
    pointers = base + offset + (rows[:, None] * STRIDE + columns[None, :])
    mask = (rows < count)[:, None] & (columns < end - start)[None, :]
    return tl.load(pointers, mask=mask, other=0.0)


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
def gather_rows(base, first, places, inside, C: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows ``first + places`` of a (rows, C) matrix, in its type; zeros where not ``inside``."""
    columns = tl.arange(0, BLOCK_C)
    pointers = base + first * C + places[:, None] * C + columns[None, :]
    return tl.load(pointers, mask=inside[:, None] & (columns < C)[None, :], other=0.0)


@triton.jit
def load_vector(base, at, end):
    """Elements ``at`` of a vector as float32; zeros from ``end`` on."""
    return tl.load(base + at, mask=at < end, other=0.0).to(tl.float32)
