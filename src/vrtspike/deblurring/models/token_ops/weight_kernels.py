"""Triton kernel of the gradients of weights; :mod:`.weight_gradients` calls it."""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_rows, load_tile


@triton.jit
def _product(
    left, right, keep, line, block, samples, length, left_length, right_length,
    OUT: tl.constexpr, BLOCK_O: tl.constexpr, C: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK: tl.constexpr, STRIDE: tl.constexpr, COLUMN: tl.constexpr,
    KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``left.T @ right`` for a block of the columns of left, summed over a share of the rows.

    It is written to ``line``: rows STRIDE apart, whose C numbers are COLUMN apart, and if right has
    a one in column C, its column after all of them.
    """
    start = block * BLOCK_O
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
    rows, columns = start + tl.arange(0, BLOCK_O), tl.arange(0, BLOCK_C)
    pointers = line + rows[:, None] * STRIDE + columns[None, :] * COLUMN
    valid = (rows < OUT)[:, None]
    tl.store(pointers, total, mask=valid & (columns < C)[None, :])
    if WIDTH > C:
        biases = line + OUT * STRIDE + rows[:, None] + tl.zeros_like(columns)[None, :]
        tl.store(biases, total, mask=valid & (columns == C)[None, :])


@triton.jit
def _sum_of_lines(lines, count, line, N: tl.constexpr, BLOCK_N: tl.constexpr, LINES: tl.constexpr):
    """A share of ``count`` lines of N numbers, added."""
    columns = tl.arange(0, BLOCK_N)
    total = tl.zeros((LINES, BLOCK_N), tl.float32)
    for first in range(tl.program_id(1) * LINES, count, tl.num_programs(1) * LINES):
        total += load_rows(lines, first, count - first, LINES, N, BLOCK_N)
    tl.store(line + columns, tl.sum(total, 0), mask=columns < N)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def weights_kernel(
    left, right, left_b, right_b, keep, lines, partial,
    samples, length, left_length, right_length, length_b, left_length_b, right_length_b, count,
    START: tl.constexpr, OUT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    COLUMN: tl.constexpr, START_B: tl.constexpr, OUT_B: tl.constexpr, WIDTH_B: tl.constexpr,
    STRIDE_B: tl.constexpr, COLUMN_B: tl.constexpr, TWO: tl.constexpr, C: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, N: tl.constexpr,
    BLOCK_N: tl.constexpr, LINES: tl.constexpr, LINE: tl.constexpr, KEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A share's part of one product or TWO, and of the sum of ``lines``.

    Axis 0 of the grid has the blocks of columns of left, those of ``left_b``, and the lines; axis 1
    the share, which has LINE numbers of ``partial``: products from START and START_B on
    (:func:`_product`), the sum of lines at the end. Of each sample ``length`` rows count, and none
    if its branch is dropped. Products are made in the type of left.
    """
    block = tl.program_id(0)
    line = partial + tl.program_id(1).to(tl.int64) * LINE
    blocks: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O
    if block < blocks:
        _product(
            left, right, keep, line + START, block, samples, length, left_length, right_length,
            OUT, BLOCK_O, C, WIDTH, BLOCK_C, BLOCK, STRIDE, COLUMN, KEEP, PRECISION,
        )  # fmt: skip
    elif block == tl.num_programs(0) - 1:
        _sum_of_lines(lines, count, line + (LINE - N), N, BLOCK_N, LINES)
    elif TWO:
        _product(
            left_b, right_b, keep, line + START_B, block - blocks, samples, length_b,
            left_length_b, right_length_b, OUT_B, BLOCK_O, C, WIDTH_B, BLOCK_C, BLOCK, STRIDE_B,
            COLUMN_B, KEEP, PRECISION,
        )  # fmt: skip
