"""Triton kernels of sums of taps; :mod:`.triton_sums` calls them.

``taps`` (B * T, pixels, 3 C) holds the three taps of each frame beside each other. A program takes
some pixels and some of the C channels of a frame: axis 0 of the grid are pixels, axis 1 channels,
axis 2 frames.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _pixels(pixels, BLOCK: tl.constexpr):
    """Place of a program's first pixel among those of all frames, and which of its own exist."""
    first = tl.program_id(0) * BLOCK
    return tl.program_id(2).to(tl.int64) * pixels + first, tl.arange(0, BLOCK) < pixels - first


@triton.jit
def _if(condition, inside, columns, C: tl.constexpr):
    """Which elements of a tile exist, none unless ``condition`` is true."""
    return inside[:, None] & (columns < tl.where(condition, C, 0))[None, :]


@triton.jit
def sum_kernel(
    taps, bias, residual, out, pixels, steps,
    C: tl.constexpr, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr, BIASED: tl.constexpr,
    RESIDUAL: tl.constexpr, RECTIFIED: tl.constexpr,
):  # fmt: skip
    """Tap 0 of the frame before, tap 1 of a frame and tap 2 of the one after it, and the rest."""
    step = tl.program_id(2) % steps
    start, inside = _pixels(pixels, BLOCK)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    near = tl.arange(0, BLOCK)[:, None]
    exists = inside[:, None] & (columns < C)[None, :]
    here = taps + start * (3 * C) + (near * (3 * C) + columns[None, :])
    frame = tl.cast(pixels, tl.int64) * (3 * C)
    total = tl.load(here + C, mask=exists, other=0.0).to(tl.float32)
    before = _if(step > 0, inside, columns, C)
    total += tl.load(here - frame, mask=before, other=0.0).to(tl.float32)
    after = _if(step < steps - 1, inside, columns, C)
    total += tl.load(here + frame + 2 * C, mask=after, other=0.0).to(tl.float32)
    if BIASED:
        total += tl.load(bias + columns, mask=columns < C, other=0.0).to(tl.float32)[None, :]
    at = start * C + (near * C + columns[None, :])
    if RESIDUAL:
        total += tl.load(residual + at, mask=exists, other=0.0).to(tl.float32)
    if RECTIFIED:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=exists)


@triton.jit
def sum_gradient_kernel(
    grad, out, grad_taps, grad_residual, partial, pixels, steps,
    C: tl.constexpr, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr, BIASED: tl.constexpr,
    RESIDUAL: tl.constexpr, RECTIFIED: tl.constexpr,
):  # fmt: skip
    """Writes a frame's gradient to the taps that fell on it, and zeros to those that fell nowhere.

    ``grad_residual`` is written if RECTIFIED; else it would be ``grad``. A line of ``partial``
    holds the program's part of the gradient of the bias.
    """
    step = tl.program_id(2) % steps
    start, inside = _pixels(pixels, BLOCK)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    near = tl.arange(0, BLOCK)[:, None]
    exists = inside[:, None] & (columns < C)[None, :]
    at = start * C + (near * C + columns[None, :])
    g = tl.load(grad + at, mask=exists, other=0.0)
    if RECTIFIED:
        g = tl.where(tl.load(out + at, mask=exists, other=0.0) > 0, g, 0.0)
        if RESIDUAL:
            tl.store(grad_residual + at, g.to(grad_residual.dtype.element_ty), mask=exists)
    if BIASED:
        line = tl.program_id(2).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
        tl.store(partial + line * C + columns, tl.sum(g.to(tl.float32), 0), mask=columns < C)
    here = grad_taps + start * (3 * C) + (near * (3 * C) + columns[None, :])
    frame = tl.cast(pixels, tl.int64) * (3 * C)
    g = g.to(grad_taps.dtype.element_ty)
    tl.store(here + C, g, mask=exists)
    tl.store(here - frame, g, mask=_if(step > 0, inside, columns, C))
    tl.store(here + frame + 2 * C, g, mask=_if(step < steps - 1, inside, columns, C))
    # The last frame's tap for the one after it, and the first one's for the one before.
    nothing = tl.zeros_like(g)
    tl.store(here, nothing, mask=_if(step == steps - 1, inside, columns, C))
    tl.store(here + 2 * C, nothing, mask=_if(step == 0, inside, columns, C))
