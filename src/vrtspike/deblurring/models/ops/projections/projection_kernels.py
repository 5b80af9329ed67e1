"""Triton kernels of the linear layers around attention.

:mod:`.triton_projections` calls them.

Attention works on a map that is padded at the end of its frames (windows divide rows and columns):
tokens of the padded map beyond the map are zeros, and nothing is padded or cropped in memory.

``keep`` has the factor of each sample's branch; the second axis of a grid is the sample. Where the
factor is 0 nothing is computed: projections before attention are zeros, and so are the gradients of
its results.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types. A
# condition that is compiled away stands around one that is not, not joined with it.
# ruff: noqa: ANN001, ANN201, ANN202, SIM102
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.ops.triton_rows import (
    AGAIN,
    append_ones,
    load_moments,
    load_packed,
    load_rows,
    load_tile,
    load_vector,
    pack_weights,
    standardise,
    standardise_backward,
    statistics,
    store_moments,
    store_rows,
    store_tile,
)


@triton.jit
def _in_window(
    first, width, shift_h, shift_w, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Places in their (shifted) windows of tokens of the padded map from ``first`` on.

    Windows divide rows, and frames, into whole ones: neither has to be known of a token, nor which
    frame it is of. Threads have many tokens each, so one division is made for all; the others are
    of small numbers, for which float32 is exact.
    """
    line = first // width
    column = first - line * width + tl.arange(0, BLOCK)
    row = line + ((column.to(tl.float32) + 0.5) * (1.0 / width)).to(tl.int32)
    row = (row + (WINDOW_H - shift_h)) % WINDOW_H
    return row * WINDOW_W + (column + (WINDOW_W - shift_w)) % WINDOW_W


@triton.jit
def packing_kernel(
    w_own, b_own, w_mutual, b_mutual, own, mutual,
    C: tl.constexpr, BLOCK_C: tl.constexpr, OUT: tl.constexpr, BLOCK_O: tl.constexpr,
    MUTUAL: tl.constexpr,
):  # fmt: skip
    """A block of rows of the weights as the kernels before attention take them."""
    start = tl.program_id(0) * BLOCK_O
    ones, zeros = tl.full((BLOCK_C,), 1.0, tl.float32), tl.zeros((BLOCK_C,), tl.float32)
    pack_weights(w_own, b_own, own, ones, zeros, start, C, BLOCK_C, OUT, BLOCK_O)
    if MUTUAL:
        pack_weights(w_mutual, b_mutual, mutual, ones, zeros, start, C, BLOCK_C, OUT, BLOCK_O)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def input_kernel(
    x, keep, scale, shift, w_own, w_mutual, table, out_own, out_mutual, moments,
    length, padded, width,
    WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr, shift_h, shift_w,
    C: tl.constexpr, BLOCK_C: tl.constexpr, OUT: tl.constexpr, BLOCK_O: tl.constexpr,
    BLOCK: tl.constexpr, MUTUAL: tl.constexpr, KEEP: tl.constexpr,
    EPSILON: tl.constexpr,
):  # fmt: skip
    """Both projections of the normalised tokens of a block of the padded map.

    own = w_own LN(x) + b_own and mutual = w_mutual LN(x) + b_mutual + table, whose row is the
    token's place in its window. ``moments`` gets mean and reciprocal standard deviation of each
    token of the map.
    """
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    row, left = sample * padded + first, padded - first
    if KEEP:
        if tl.load(keep + sample) == 0:
            zeros = tl.zeros((BLOCK, BLOCK_O), tl.float32)
            for start in range(0, OUT, BLOCK_O):
                store_tile(out_own, row, left, start, OUT, zeros, BLOCK, OUT, BLOCK_O)
                if MUTUAL:
                    store_tile(out_mutual, row, left, start, OUT, zeros, BLOCK, OUT, BLOCK_O)
            return
    count = length - first  # none in frames that are padded
    inside = tl.arange(0, BLOCK) < count
    at = sample * length + first
    mean, rstd = statistics(x, at, tl.arange(0, BLOCK), inside, C, EPSILON)
    store_moments(moments, at, count, mean, rstd, BLOCK)
    stream = load_rows(x, at, count, BLOCK, C, BLOCK_C)
    columns = tl.arange(0, BLOCK_C)
    gain, offset = load_vector(scale, columns, C), load_vector(shift, columns, C)
    n = standardise(stream.to(tl.float32), mean, rstd) * gain[None, :] + offset[None, :]
    n = append_ones(tl.where(inside[:, None], n, 0.0), w_own.dtype.element_ty, C, BLOCK_C)
    for start in range(0, OUT, BLOCK_O):
        weights = load_packed(w_own, start, BLOCK_O, BLOCK_C)
        result = tl.dot(n, tl.trans(weights))
        store_tile(out_own, row, left, start, OUT, result, BLOCK, OUT, BLOCK_O)
    if MUTUAL:
        window = _in_window(first, width, shift_h, shift_w, WINDOW_H, WINDOW_W, BLOCK)
        for start in range(0, OUT, BLOCK_O):
            outputs = start + tl.arange(0, BLOCK_O)
            weights = load_packed(w_mutual, start, BLOCK_O, BLOCK_C)
            result = tl.dot(n, tl.trans(weights))
            pointers = table + window[:, None] * OUT + outputs[None, :]
            result += tl.load(pointers, mask=(outputs < OUT)[None, :], other=0.0)
            store_tile(out_mutual, row, left, start, OUT, result, BLOCK, OUT, BLOCK_O)


@triton.jit
def _through_weights(
    total, grad, weights, row, left, count, BLOCK_C: tl.constexpr, OUT: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """total + grad @ weights of a block of the padded map; ``total`` if no row counts."""
    end = tl.where(count > 0, OUT, 0)
    for start in range(0, end, BLOCK_O):
        g = load_tile(grad, row, left, start, OUT, BLOCK, OUT, BLOCK_O)
        w = load_packed(weights, start, BLOCK_O, BLOCK_C)
        total = tl.dot(g, w, total)
    return total


@triton.jit(do_not_specialize_on_alignment=["keep"])
def input_rows_kernel(
    x, keep, moments, scale, shift, w_own, w_mutual, code, grad_own, grad_mutual, through,
    grad_x, normed, coded, partial,
    length, padded, width,
    WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr, shift_h, shift_w,
    C: tl.constexpr, WIDTH: tl.constexpr, BLOCK_C: tl.constexpr, OUT: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK: tl.constexpr, MUTUAL: tl.constexpr,
    KEEP: tl.constexpr,
):  # fmt: skip
    """Gradient of a block of the padded map, and operands of the gradients of the weights.

    That is ``normed``, with a one in column C, also where the map has been padded, and for mutual
    attention ``coded``, the same with the ``code`` of each token's place in its window.
    ``through`` is the gradient that reaches x by another way and is added. A line of ``partial``
    holds the block's part of the gradients of scale and shift.
    """
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    at = sample * length + first
    columns = tl.arange(0, BLOCK_C)
    gain, offset = load_vector(scale, columns, C), load_vector(shift, columns, C)
    # Beyond the last frame there is nothing to give a gradient to.
    count = length - first
    inside = tl.arange(0, BLOCK) < count
    row, left = sample * padded + first, padded - first
    if KEEP:
        # Only what reaches x by the other way is left.
        dropped = tl.load(keep + sample) == 0
        count = tl.where(dropped, 0, count)
    total = tl.zeros((BLOCK, BLOCK_C), tl.float32)
    total = _through_weights(total, grad_own, w_own, row, left, count, BLOCK_C, OUT, BLOCK_O, BLOCK)
    if MUTUAL:
        total = _through_weights(
            total, grad_mutual, w_mutual, row, left, count, BLOCK_C, OUT, BLOCK_O, BLOCK
        )
    total = tl.where(inside[:, None], total, 0.0)
    stream = load_rows(x, at, length - first, BLOCK, C, BLOCK_C).to(tl.float32)
    mean, rstd = load_moments(moments, at, count, BLOCK)
    hat = standardise(stream, mean, rstd)
    n = hat * gain[None, :] + offset[None, :]
    n = tl.where(inside[:, None], n, 0.0)
    n = tl.where((columns == C)[None, :], 1.0, n)
    store_rows(normed, row, left, n, BLOCK, WIDTH, BLOCK_C)
    if MUTUAL:
        window = _in_window(first, width, shift_h, shift_w, WINDOW_H, WINDOW_W, BLOCK)
        pointers = code + window[:, None] * C + columns[None, :]
        n += tl.load(pointers, mask=(columns < C)[None, :], other=0.0)
        store_rows(coded, row, left, n, BLOCK, WIDTH, BLOCK_C)
    line = partial + (sample * tl.num_programs(0) + tl.program_id(0)) * (2 * C)
    tl.store(line + columns, tl.sum(total * hat, 0), mask=columns < C)
    tl.store(line + C + columns, tl.sum(total, 0), mask=columns < C)
    total = standardise_backward(total * gain[None, :], hat, rstd, C)
    total += load_rows(through, at, length - first, BLOCK, C, BLOCK_C, AGAIN).to(tl.float32)
    store_rows(grad_x, at, length - first, total, BLOCK, C, BLOCK_C)


@triton.jit
def _projected(
    total, weights, operand, row, count,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """total + weights operand, of the block from ``row`` on; ``count`` of its rows are read."""
    w = load_rows(weights, 0, C, BLOCK_C, C, BLOCK_C)
    rows = load_rows(operand, row, count, BLOCK, C, BLOCK_C)
    return tl.dot(rows.to(w.dtype), tl.trans(w), total)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def output_kernel(
    x, keep, w_own, w_mutual, bias, own, mutual, out,
    length, padded,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK: tl.constexpr,
    MUTUAL: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """x + factor * (w_own own + w_mutual mutual + bias) of a block of the map."""
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    factor = 1.0
    count = length - first
    if KEEP:
        factor = tl.load(keep + sample)
        count = tl.where(factor == 0, 0, count)  # nothing is read
    columns = tl.arange(0, BLOCK_C)
    total = tl.broadcast_to(load_vector(bias, columns, C)[None, :], (BLOCK, BLOCK_C))
    row = sample * padded + first
    total = _projected(total, w_own, own, row, count, C, BLOCK_C, BLOCK)
    if MUTUAL:
        total = _projected(total, w_mutual, mutual, row, count, C, BLOCK_C, BLOCK)
    row = sample * length + first
    stream = load_rows(x, row, length - first, BLOCK, C, BLOCK_C).to(tl.float32)
    store_rows(out, row, length - first, stream + factor * total, BLOCK, C, BLOCK_C)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def output_rows_kernel(
    grad, keep, w_own, w_mutual, grad_own, grad_mutual, scaled, partial,
    length, padded,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK: tl.constexpr,
    MUTUAL: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of the padded map, and operands of the gradients of the weights.

    That is ``scaled``, the branch's gradient, zero where the map has been padded. A line of
    ``partial`` holds the block's part of the bias's gradient.
    """
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    columns = tl.arange(0, BLOCK_C)
    g = load_rows(grad, sample * length + first, length - first, BLOCK, C, BLOCK_C)
    g = g.to(tl.float32)
    if KEEP:
        g = g * tl.load(keep + sample)
    line = partial + (sample * tl.num_programs(0) + tl.program_id(0)) * C
    tl.store(line + columns, tl.sum(g, 0), mask=columns < C)
    weights = load_rows(w_own, 0, C, BLOCK_C, C, BLOCK_C)
    g = g.to(weights.dtype)
    row, left = sample * padded + first, padded - first
    store_rows(scaled, row, left, g, BLOCK, C, BLOCK_C)
    store_rows(grad_own, row, left, tl.dot(g, weights), BLOCK, C, BLOCK_C)
    if MUTUAL:
        weights = load_rows(w_mutual, 0, C, BLOCK_C, C, BLOCK_C)
        store_rows(grad_mutual, row, left, tl.dot(g, weights), BLOCK, C, BLOCK_C)
