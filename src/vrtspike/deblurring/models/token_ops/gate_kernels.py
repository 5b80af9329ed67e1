"""Triton kernels of the gate of GEGLU, GELU(a) * b; :mod:`.triton_gate` calls them.

``hidden`` (rows, 2 H) holds a and b beside each other. A program takes a tile of some rows and some
of their H numbers.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_tile, store_tile
from vrtspike.deblurring.models.token_ops.kernel_parts import normal


@triton.jit
def gate_kernel(
    hidden, out, rows,
    H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``out`` (rows, H) = GELU(a) * b."""
    first, start = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK_H
    count = rows - first
    a = load_tile(hidden, first, count, start, H, BLOCK, 2 * H, BLOCK_H).to(tl.float32)
    b = load_tile(hidden + H, first, count, start, H, BLOCK, 2 * H, BLOCK_H).to(tl.float32)
    below, _ = normal(a, PRECISION)
    store_tile(out, first, count, start, H, a * below * b, BLOCK, H, BLOCK_H)


@triton.jit
def gate_gradient_kernel(
    grad, hidden, out, grad_hidden, rows,
    H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr, AGAIN: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """``grad_hidden`` (rows, 2 H) from ``grad`` (rows, H); if AGAIN also ``out`` once more."""
    first, start = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK_H
    count = rows - first
    a = load_tile(hidden, first, count, start, H, BLOCK, 2 * H, BLOCK_H).to(tl.float32)
    b = load_tile(hidden + H, first, count, start, H, BLOCK, 2 * H, BLOCK_H).to(tl.float32)
    g = load_tile(grad, first, count, start, H, BLOCK, H, BLOCK_H).to(tl.float32)
    below, density = normal(a, PRECISION)
    of_a, of_b = g * b * (below + a * density), g * a * below
    store_tile(grad_hidden, first, count, start, H, of_a, BLOCK, 2 * H, BLOCK_H)
    store_tile(grad_hidden + H, first, count, start, H, of_b, BLOCK, 2 * H, BLOCK_H)
    if AGAIN:
        store_tile(out, first, count, start, H, a * below * b, BLOCK, H, BLOCK_H)
