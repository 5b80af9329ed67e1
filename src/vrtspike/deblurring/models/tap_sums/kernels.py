"""Triton kernels of sums of taps; :mod:`.triton_sums` calls them.

``taps`` (B * T, pixels, TAPS C) holds the three taps of each frame beside each other, or the one of
a convolution without time. A program takes some pixels and some of the C channels of a frame: axis
0 of the grid are pixels, axis 1 channels, axis 2 frames. RECTIFIED: what is negative is multiplied
by SLOPE.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_tile, load_vector, store_tile


@triton.jit
def sum_kernel(
    taps, bias, residual, out, pixels, steps,
    C: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr,
    BIASED: tl.constexpr, RESIDUAL: tl.constexpr, RECTIFIED: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """Tap 0 of the frame before, tap 1 of a frame and tap 2 of the one after it, and the rest."""
    step = tl.program_id(2) % steps
    first, start = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK_C
    here, count = tl.program_id(2).to(tl.int64) * pixels + first, pixels - first
    before, after = tl.where(step > 0, count, 0), tl.where(step < steps - 1, count, 0)
    width: tl.constexpr = TAPS * C
    middle: tl.constexpr = (TAPS - 1) // 2 * C
    total = load_tile(taps + middle, here, count, start, C, BLOCK, width, BLOCK_C).to(tl.float32)
    if TAPS == 3:
        early = load_tile(taps, here - pixels, before, start, C, BLOCK, width, BLOCK_C)
        late = load_tile(taps + 2 * C, here + pixels, after, start, C, BLOCK, width, BLOCK_C)
        total += early.to(tl.float32) + late.to(tl.float32)
    if BIASED:
        total += load_vector(bias, start + tl.arange(0, BLOCK_C), C)[None, :]
    if RESIDUAL:
        total += load_tile(residual, here, count, start, C, BLOCK, C, BLOCK_C).to(tl.float32)
    if RECTIFIED:
        least = total * SLOPE if SLOPE > 0 else 0.0
        total = tl.maximum(total, least, propagate_nan=tl.PropagateNan.ALL)
    store_tile(out, here, count, start, C, total, BLOCK, C, BLOCK_C)


@triton.jit
def sum_gradient_kernel(
    grad, out, grad_taps, grad_residual, partial, pixels, steps,
    C: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr,
    BIASED: tl.constexpr, RESIDUAL: tl.constexpr, RECTIFIED: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """Writes a frame's gradient to the taps that fell on it, and zeros to those that fell nowhere.

    ``grad_residual`` is written if RECTIFIED; else it would be ``grad``. A line of ``partial``
    holds the program's part of the gradient of the bias.
    """
    step = tl.program_id(2) % steps
    first, start = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK_C
    here, count = tl.program_id(2).to(tl.int64) * pixels + first, pixels - first
    before, after = tl.where(step > 0, count, 0), tl.where(step < steps - 1, count, 0)
    width: tl.constexpr = TAPS * C
    middle: tl.constexpr = (TAPS - 1) // 2 * C
    g = load_tile(grad, here, count, start, C, BLOCK, C, BLOCK_C)
    if RECTIFIED:
        above = load_tile(out, here, count, start, C, BLOCK, C, BLOCK_C) > 0
        g = tl.where(above, g, (g * SLOPE).to(g.dtype) if SLOPE > 0 else 0.0)
        if RESIDUAL:
            store_tile(grad_residual, here, count, start, C, g, BLOCK, C, BLOCK_C)
    if BIASED:
        columns = start + tl.arange(0, BLOCK_C)
        line = tl.program_id(2).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
        tl.store(partial + line * C + columns, tl.sum(g.to(tl.float32), 0), mask=columns < C)
    store_tile(grad_taps + middle, here, count, start, C, g, BLOCK, width, BLOCK_C)
    if TAPS == 3:
        store_tile(grad_taps, here - pixels, before, start, C, g, BLOCK, width, BLOCK_C)
        store_tile(grad_taps + 2 * C, here + pixels, after, start, C, g, BLOCK, width, BLOCK_C)
        # The last frame's tap for the one after it, and the first one's for the one before.
        zeros = tl.zeros_like(g)
        store_tile(grad_taps, here, count - after, start, C, zeros, BLOCK, width, BLOCK_C)
        store_tile(grad_taps + 2 * C, here, count - before, start, C, zeros, BLOCK, width, BLOCK_C)
