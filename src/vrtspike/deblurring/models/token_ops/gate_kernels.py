"""Triton kernels of the gate of GEGLU, GELU(a) * b; :mod:`.triton_gate` calls them.

``hidden`` (rows, 2 H) holds a and b beside each other, without their bias (2 H). A program takes a
tile of some rows and some of their H numbers.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_tile, load_vector, store_tile
from vrtspike.deblurring.models.token_ops.kernel_parts import normal


@triton.jit
def _operands(
    hidden, bias, first, count, start, H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr
):
    """a and b of a program's tile with their bias, in float32."""
    columns = start + tl.arange(0, BLOCK_H)
    a = load_tile(hidden, first, count, start, H, BLOCK, 2 * H, BLOCK_H).to(tl.float32)
    b = load_tile(hidden + H, first, count, start, H, BLOCK, 2 * H, BLOCK_H).to(tl.float32)
    a += load_vector(bias, columns, H)[None, :]
    b += load_vector(bias + H, columns, H)[None, :]
    return a, b


@triton.jit
def gate_kernel(
    hidden, bias, out, rows,
    H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``out`` (rows, H) = GELU(a) * b."""
    first, start = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK_H
    count = rows - first
    a, b = _operands(hidden, bias, first, count, start, H, BLOCK, BLOCK_H)
    below, _ = normal(a, PRECISION)
    store_tile(out, first, count, start, H, a * below * b, BLOCK, H, BLOCK_H)


@triton.jit
def gate_gradient_kernel(
    grad, hidden, bias, out, grad_hidden, partial, rows,
    H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr, TILES: tl.constexpr,
    AGAIN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``grad_hidden`` (rows, 2 H) from ``grad`` (rows, H); if AGAIN also ``out`` once more.

    A program takes TILES tiles, one below the other, and writes their part of the bias's gradient
    to its line of ``partial`` (., 2 H): a sum over the rows of each tile would cost as many
    instructions as the gradient itself.
    """
    start = tl.program_id(1) * BLOCK_H
    sum_a = tl.zeros([BLOCK, BLOCK_H], tl.float32)
    sum_b = tl.zeros([BLOCK, BLOCK_H], tl.float32)
    for number in range(TILES):
        first = (tl.program_id(0) * TILES + number) * BLOCK
        count = rows - first
        a, b = _operands(hidden, bias, first, count, start, H, BLOCK, BLOCK_H)
        g = load_tile(grad, first, count, start, H, BLOCK, H, BLOCK_H).to(tl.float32)
        below, density = normal(a, PRECISION)
        of_a, of_b = g * b * (below + a * density), g * a * below
        # What is beyond the rows has no ``grad``, and so no gradient.
        sum_a += of_a
        sum_b += of_b
        store_tile(grad_hidden, first, count, start, H, of_a, BLOCK, 2 * H, BLOCK_H)
        store_tile(grad_hidden + H, first, count, start, H, of_b, BLOCK, 2 * H, BLOCK_H)
        if AGAIN:
            store_tile(out, first, count, start, H, a * below * b, BLOCK, H, BLOCK_H)
    columns = start + tl.arange(0, BLOCK_H)
    line = partial + tl.program_id(0).to(tl.int64) * 2 * H + columns
    tl.store(line, tl.sum(sum_a, 0), mask=columns < H)
    tl.store(line + H, tl.sum(sum_b, 0), mask=columns < H)
