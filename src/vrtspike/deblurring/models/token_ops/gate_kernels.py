"""Triton kernels of the gate of GEGLU, GELU(a) * b; :mod:`.triton_gate` calls them.

``hidden`` (rows, 2 H) holds a and b beside each other. A program takes a tile of some rows and some
of their H numbers.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.token_ops.kernel_parts import normal


@triton.jit
def _tile(rows, width, H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr):
    """Offsets of a tile in rows of ``width`` numbers, and which of its elements exist."""
    first = tl.program_id(0) * BLOCK
    near, columns = tl.arange(0, BLOCK), tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    offsets = tl.cast(first, tl.int64) * width + (near[:, None] * width + columns[None, :])
    return offsets, (near < rows - first)[:, None] & (columns < H)[None, :]


@triton.jit
def gate_kernel(
    hidden, out, rows,
    H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``out`` (rows, H) = GELU(a) * b."""
    at, exists = _tile(rows, 2 * H, H, BLOCK, BLOCK_H)
    a = tl.load(hidden + at, mask=exists, other=0.0).to(tl.float32)
    b = tl.load(hidden + at + H, mask=exists, other=0.0).to(tl.float32)
    below, _ = normal(a, PRECISION)
    to, _ = _tile(rows, H, H, BLOCK, BLOCK_H)
    tl.store(out + to, (a * below * b).to(out.dtype.element_ty), mask=exists)


@triton.jit
def gate_gradient_kernel(
    grad, hidden, out, grad_hidden, rows,
    H: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr, AGAIN: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """``grad_hidden`` (rows, 2 H) from ``grad`` (rows, H); if AGAIN also ``out`` once more."""
    at, exists = _tile(rows, 2 * H, H, BLOCK, BLOCK_H)
    to, _ = _tile(rows, H, H, BLOCK, BLOCK_H)
    a = tl.load(hidden + at, mask=exists, other=0.0).to(tl.float32)
    b = tl.load(hidden + at + H, mask=exists, other=0.0).to(tl.float32)
    g = tl.load(grad + to, mask=exists, other=0.0).to(tl.float32)
    below, density = normal(a, PRECISION)
    type_ = grad_hidden.dtype.element_ty
    tl.store(grad_hidden + at, (g * b * (below + a * density)).to(type_), mask=exists)
    tl.store(grad_hidden + at + H, (g * a * below).to(type_), mask=exists)
    if AGAIN:
        tl.store(out + to, (a * below * b).to(type_), mask=exists)
