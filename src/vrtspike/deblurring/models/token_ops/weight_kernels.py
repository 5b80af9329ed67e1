"""Triton kernel of the gradients of weights; :mod:`.weight_gradients` calls it."""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_rows, load_tile


@triton.jit(do_not_specialize_on_alignment=["keep"])
def weights_kernel(
    left, right, keep, partial, samples, length, left_length, right_length,
    OUT: tl.constexpr, BLOCK_O: tl.constexpr, C: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK: tl.constexpr, STRIDE: tl.constexpr, COLUMN: tl.constexpr,
    LINE: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``left.T @ right`` for a block of the columns of left, summed over a share of the rows.

    Axis 0 of the grid is the block, axis 1 the share, which has a line of ``partial``: rows STRIDE
    apart, whose C numbers are COLUMN apart, and if right has a one in column C, its column after
    all of them. Of each sample ``length`` rows count, and none if its branch is dropped. The
    product is made in the type of left.
    """
    start = tl.program_id(0) * BLOCK_O
    total = tl.zeros((BLOCK_O, BLOCK_C), tl.float32)
    for sample in range(samples):
        base = tl.cast(sample, tl.int64)
        end = length
        if KEEP:
            end = tl.where(tl.load(keep + sample) == 0, 0, length)
        for first in range(tl.program_id(1) * BLOCK, end, tl.num_programs(1) * BLOCK):
            count = length - first
            a = load_tile(left, base * left_length + first, count, start, OUT, BLOCK, OUT, BLOCK_O)
            b = load_rows(right, base * right_length + first, count, BLOCK, WIDTH, BLOCK_C)
            total = tl.dot(tl.trans(a), b.to(a.dtype), total, input_precision=PRECISION)
    own = partial + tl.program_id(1).to(tl.int64) * LINE
    rows, columns = start + tl.arange(0, BLOCK_O), tl.arange(0, BLOCK_C)
    pointers = own + rows[:, None] * STRIDE + columns[None, :] * COLUMN
    valid = (rows < OUT)[:, None]
    tl.store(pointers, total, mask=valid & (columns < C)[None, :])
    if WIDTH > C:
        biases = own + OUT * STRIDE + rows[:, None] + tl.zeros_like(columns)[None, :]
        tl.store(biases, total, mask=valid & (columns == C)[None, :])
