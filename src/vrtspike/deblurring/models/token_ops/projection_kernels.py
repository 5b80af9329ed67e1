"""Triton kernels of the linear layers around attention.

:mod:`.input_projections` calls those before, :mod:`.output_projection` those after it.

Attention works on a padded map; its windows need whole rows and columns, and mutual attention an
even number of frames. All kernels translate positions themselves, so nothing is padded or cropped
in memory: positions of the padded map beyond the map are zeros.

``keep`` has the factor of each sample's branch; the second axis of a grid is the sample. Where the
factor is 0, attention reads and writes nothing of the sample, nor do projections before it; the
gradients of its results are written as zeros, which other implementations of it need.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types. A
# condition that is compiled away stands around one that is not, not joined with it.
# ruff: noqa: ANN001, ANN201, ANN202, SIM102
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import (
    gather_rows,
    load_rows,
    load_rows_again,
    load_tile,
    load_vector,
    load_whole,
    store_rows,
    store_tile,
)
from vrtspike.deblurring.models.token_ops.kernel_parts import (
    lay,
    standardise,
    standardise_backward,
    statistics,
    with_ones,
)


@triton.jit
def _in_map(at, length, height, width, padded_h, padded_w, SPATIAL: tl.constexpr):
    """Positions in the map of positions in the padded map, and whether they are in it."""
    if SPATIAL:
        column, line = at % padded_w, at // padded_w
        row, frame = line % padded_h, line // padded_h
        place = (frame * height + row) * width + column
        return place, (column < width) & (row < height) & (place < length)
    else:
        return at, at < length


@triton.jit
def _in_padded(at, height, width, padded_h, padded_w, SPATIAL: tl.constexpr):
    """Positions in the padded map of positions in the map."""
    if SPATIAL:
        column, line = at % width, at // width
        row, frame = line % height, line // height
        return (frame * padded_h + row) * padded_w + column
    else:
        return at


@triton.jit
def _in_window(
    first, padded_w, shift_h, shift_w, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Places in their (shifted) windows of tokens of the padded map from ``first`` on.

    Windows divide rows, and frames, into whole ones: neither has to be known of a token, nor which
    frame it is of. Threads have many tokens each, so one division is made for all; the others are
    of small numbers, for which float32 is exact.
    """
    line = first // padded_w
    column = first - line * padded_w + tl.arange(0, BLOCK)
    row = line + ((column.to(tl.float32) + 0.5) * (1.0 / padded_w)).to(tl.int32)
    row = (row + (WINDOW_H - shift_h)) % WINDOW_H
    return row * WINDOW_W + (column + (WINDOW_W - shift_w)) % WINDOW_W


@triton.jit
def lay_kernel(
    w_own, b_own, w_mutual, b_mutual, code, own, mutual, table,
    C: tl.constexpr, BLOCK_C: tl.constexpr, OUT: tl.constexpr, BLOCK_O: tl.constexpr,
    PLACES: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr, MUTUAL: tl.constexpr,
):  # fmt: skip
    """Weights as :func:`input_kernel` and :func:`input_rows_kernel` take them, a block of rows.

    ``table`` gets what w_mutual makes of the code of each place in a window, exactly.
    """
    start = tl.program_id(0) * BLOCK_O
    ones, zeros = tl.full((BLOCK_C,), 1.0, tl.float32), tl.zeros((BLOCK_C,), tl.float32)
    lay(w_own, b_own, own, ones, zeros, start, C, BLOCK_C, OUT, BLOCK_O)
    if MUTUAL:
        lay(w_mutual, b_mutual, mutual, ones, zeros, start, C, BLOCK_C, OUT, BLOCK_O)
        for place in range(0, PLACES, BLOCK_P):
            count = PLACES - place
            result = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
            for piece in range(0, C, BLOCK_K):
                codes = load_tile(code, place, count, piece, C, BLOCK_P, C, BLOCK_K)
                rows = load_tile(w_mutual, start, OUT - start, piece, C, BLOCK_O, C, BLOCK_K)
                rows = tl.trans(rows.to(tl.float32))
                result = tl.dot(codes.to(tl.float32), rows, result, input_precision="ieee")
            store_tile(table, place, count, start, OUT, result, BLOCK_P, OUT, BLOCK_O)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def input_kernel(
    x, keep, scale, shift, w_own, w_mutual, table, out_own, out_mutual, moments,
    length, length_own, length_mutual, height, width, padded_h, padded_w,
    WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr, shift_h, shift_w,
    C: tl.constexpr, BLOCK_C: tl.constexpr, OUT: tl.constexpr, BLOCK_O: tl.constexpr,
    BLOCK: tl.constexpr, SPATIAL: tl.constexpr, MUTUAL: tl.constexpr, KEEP: tl.constexpr,
    EPSILON: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Both projections of the normalised tokens of a block of the padded map.

    own = w_own LN(x) + b_own and mutual = w_mutual LN(x) + b_mutual + table, whose row is the
    token's place in its window. ``moments`` gets mean and reciprocal standard deviation of each
    token of the map.
    """
    sample = tl.program_id(1).to(tl.int64)
    if KEEP:
        if tl.load(keep + sample) == 0:
            return
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    place, inside = _in_map(at, length, height, width, padded_h, padded_w, SPATIAL)
    mean, rstd = statistics(x, sample * length, place, inside, C, EPSILON)
    own_moments = moments + (sample * length + place) * 2
    tl.store(own_moments, mean, mask=inside)
    tl.store(own_moments + 1, rstd, mask=inside)
    if SPATIAL:
        stream = gather_rows(x, sample * length, place, inside, C, BLOCK_C)
    else:
        stream = load_rows(x, sample * length + first, length - first, BLOCK, C, BLOCK_C)
    columns = tl.arange(0, BLOCK_C)
    gain, offset = load_vector(scale, columns, C), load_vector(shift, columns, C)
    n = standardise(stream.to(tl.float32), mean, rstd) * gain[None, :] + offset[None, :]
    n = with_ones(tl.where(inside[:, None], n, 0.0), w_own.dtype.element_ty, C, BLOCK_C)
    for start in range(0, OUT, BLOCK_O):
        weights = load_whole(w_own, start, BLOCK_O, BLOCK_C)
        result = tl.dot(n, tl.trans(weights), input_precision=PRECISION)
        row = sample * length_own + first
        store_tile(out_own, row, length_own - first, start, OUT, result, BLOCK, OUT, BLOCK_O)
    if MUTUAL:
        window = _in_window(first, padded_w, shift_h, shift_w, WINDOW_H, WINDOW_W, BLOCK)
        for start in range(0, OUT, BLOCK_O):
            outputs = start + tl.arange(0, BLOCK_O)
            weights = load_whole(w_mutual, start, BLOCK_O, BLOCK_C)
            result = tl.dot(n, tl.trans(weights), input_precision=PRECISION)
            pointers = table + window[:, None] * OUT + outputs[None, :]
            result += tl.load(pointers, mask=(outputs < OUT)[None, :], other=0.0)
            row = sample * length_mutual + first
            store_tile(
                out_mutual, row, length_mutual - first, start, OUT, result, BLOCK, OUT, BLOCK_O
            )


@triton.jit
def _through_weights(
    total, grad, weights, first, at, count, length, BLOCK_C: tl.constexpr, OUT: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """total + grad @ weights of a block of the padded map."""
    end = tl.where(count > 0, OUT, 0)
    for start in range(0, end, BLOCK_O):
        g = load_tile(grad, at + first, length - first, start, OUT, BLOCK, OUT, BLOCK_O)
        w = load_whole(weights, start, BLOCK_O, BLOCK_C)
        total = tl.dot(g, w, total, input_precision=PRECISION)
    return total


@triton.jit(do_not_specialize_on_alignment=["keep"])
def input_rows_kernel(
    x, keep, moments, scale, shift, w_own, w_mutual, code, grad_own, grad_mutual, through, around,
    grad_x, normed, coded, partial,
    length, length_own, length_mutual, height, width, padded_h, padded_w,
    WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr, shift_h, shift_w,
    C: tl.constexpr, WIDTH: tl.constexpr, BLOCK_C: tl.constexpr, OUT: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK: tl.constexpr, SPATIAL: tl.constexpr, MUTUAL: tl.constexpr,
    KEEP: tl.constexpr, AROUND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of a block of the padded map, and what :mod:`.weight_kernels` reads.

    That is ``normed``, with a one in column C, also where the map has been padded, and for mutual
    attention ``coded``, the same with the ``code`` of each token's place in its window.
    ``through`` is the gradient that reaches x by another way and is added, and so is ``around`` if
    AROUND. A line of ``partial`` holds the block's part of the gradients of scale and shift.
    """
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK_C)
    place, inside = _in_map(at, length, height, width, padded_h, padded_w, SPATIAL)
    longest = length_own
    if MUTUAL:
        longest = tl.maximum(length_own, length_mutual)
    gain, offset = load_vector(scale, columns, C), load_vector(shift, columns, C)
    # Beyond the last frame there is nothing to give a gradient to.
    count = length - first
    if SPATIAL:
        count = longest - first
    left, left_mutual = length_own - first, length_mutual - first
    known = inside
    if KEEP:
        # Only what reaches x by the other way is left; nobody reads the rest.
        dropped = tl.load(keep + sample) == 0
        count = tl.where(dropped, 0, count)
        left, left_mutual = tl.where(dropped, 0, left), tl.where(dropped, 0, left_mutual)
        known = inside & (not dropped)
    total = tl.zeros((BLOCK, BLOCK_C), tl.float32)
    total = _through_weights(
        total, grad_own, w_own, first, sample * length_own, count, length_own,
        BLOCK_C, OUT, BLOCK_O, BLOCK, PRECISION,
    )  # fmt: skip
    if MUTUAL:
        total = _through_weights(
            total, grad_mutual, w_mutual, first, sample * length_mutual, count, length_mutual,
            BLOCK_C, OUT, BLOCK_O, BLOCK, PRECISION,
        )  # fmt: skip
    total = tl.where(inside[:, None], total, 0.0)
    if SPATIAL:
        stream = gather_rows(x, sample * length, place, inside, C, BLOCK_C).to(tl.float32)
    else:
        stream = load_rows(x, sample * length + first, length - first, BLOCK, C, BLOCK_C)
        stream = stream.to(tl.float32)
    own_moments = moments + (sample * length + place) * 2
    mean = tl.load(own_moments, mask=known, other=0.0)
    rstd = tl.load(own_moments + 1, mask=known, other=0.0)
    hat = standardise(stream, mean, rstd)
    n = hat * gain[None, :] + offset[None, :]
    n = tl.where(inside[:, None], n, 0.0)
    n = tl.where((columns == C)[None, :], 1.0, n)
    store_rows(normed, sample * length_own + first, left, n, BLOCK, WIDTH, BLOCK_C)
    if MUTUAL:
        window = _in_window(first, padded_w, shift_h, shift_w, WINDOW_H, WINDOW_W, BLOCK)
        pointers = code + window[:, None] * C + columns[None, :]
        n += tl.load(pointers, mask=(columns < C)[None, :], other=0.0)
        row = sample * length_mutual + first
        store_rows(coded, row, left_mutual, n, BLOCK, WIDTH, BLOCK_C)
    line = partial + (sample * tl.num_programs(0) + tl.program_id(0)) * (2 * C)
    tl.store(line + columns, tl.sum(total * hat, 0), mask=columns < C)
    tl.store(line + C + columns, tl.sum(total, 0), mask=columns < C)
    total = standardise_backward(total * gain[None, :], hat, rstd, C)
    if SPATIAL:
        mask = inside[:, None] & (columns < C)[None, :]
        pointers = sample * length * C + place[:, None] * C + columns[None, :]
        total += tl.load(through + pointers, mask=mask, other=0.0).to(tl.float32)
        if AROUND:
            total += tl.load(around + pointers, mask=mask, other=0.0).to(tl.float32)
        tl.store(grad_x + pointers, total.to(grad_x.dtype.element_ty), mask=mask)
    else:
        row = sample * length + first
        total += load_rows_again(through, row, length - first, BLOCK, C, BLOCK_C)
        if AROUND:
            total += load_rows_again(around, row, length - first, BLOCK, C, BLOCK_C)
        store_rows(grad_x, row, length - first, total, BLOCK, C, BLOCK_C)


@triton.jit
def projected(
    w_own, w_mutual, bias, own, mutual, sample, first, count, length_own, length_mutual, height,
    width, padded_h, padded_w,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK: tl.constexpr, SPATIAL: tl.constexpr,
    MUTUAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """w_own own + w_mutual mutual + bias of a block of the map; ``count`` of its rows are read."""
    columns = tl.arange(0, BLOCK_C)
    at = first + tl.arange(0, BLOCK)
    place = _in_padded(at, height, width, padded_h, padded_w, SPATIAL)
    inside = tl.arange(0, BLOCK) < count
    total = tl.broadcast_to(load_vector(bias, columns, C)[None, :], (BLOCK, BLOCK_C))
    weights = load_rows(w_own, 0, C, BLOCK_C, C, BLOCK_C)
    if SPATIAL:
        operand = gather_rows(own, sample * length_own, place, inside, C, BLOCK_C)
    else:
        operand = load_rows(own, sample * length_own + first, count, BLOCK, C, BLOCK_C)
    operand = operand.to(weights.dtype)
    total = tl.dot(operand, tl.trans(weights), total, input_precision=PRECISION)
    if MUTUAL:
        weights = load_rows(w_mutual, 0, C, BLOCK_C, C, BLOCK_C)
        if SPATIAL:
            operand = gather_rows(mutual, sample * length_mutual, place, inside, C, BLOCK_C)
        else:
            operand = load_rows(mutual, sample * length_mutual + first, count, BLOCK, C, BLOCK_C)
        operand = operand.to(weights.dtype)
        total = tl.dot(operand, tl.trans(weights), total, input_precision=PRECISION)
    return total


@triton.jit(do_not_specialize_on_alignment=["keep"])
def output_kernel(
    x, keep, w_own, w_mutual, bias, own, mutual, out,
    length, length_own, length_mutual, height, width, padded_h, padded_w,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK: tl.constexpr, SPATIAL: tl.constexpr,
    MUTUAL: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """x + factor * (w_own own + w_mutual mutual + bias) of a block of the map."""
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    factor = 1.0
    count = length - first
    if KEEP:
        factor = tl.load(keep + sample)
        count = tl.where(factor == 0, 0, count)  # nothing is read
    total = projected(
        w_own, w_mutual, bias, own, mutual, sample, first, count, length_own, length_mutual, height,
        width, padded_h, padded_w, C, BLOCK_C, BLOCK, SPATIAL, MUTUAL, PRECISION,
    )  # fmt: skip
    row = sample * length + first
    stream = load_rows(x, row, length - first, BLOCK, C, BLOCK_C).to(tl.float32)
    store_rows(out, row, length - first, stream + factor * total, BLOCK, C, BLOCK_C)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def output_rows_kernel(
    grad, keep, w_own, w_mutual, grad_own, grad_mutual, scaled, partial,
    length, length_own, length_mutual, height, width, padded_h, padded_w,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK: tl.constexpr, SPATIAL: tl.constexpr,
    MUTUAL: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of the padded map, and what :mod:`.weight_kernels` reads.

    That is ``scaled``, the branch's gradient, zero where the map has been padded. A line of
    ``partial`` holds the block's part of the bias's gradient.
    """
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK_C)
    longest = length_own
    if MUTUAL:
        longest = tl.maximum(length_own, length_mutual)
    if SPATIAL:
        place, inside = _in_map(at, length, height, width, padded_h, padded_w, SPATIAL)
        g = gather_rows(grad, sample * length, place, inside, C, BLOCK_C).to(tl.float32)
    else:
        g = load_rows(grad, sample * length + first, length - first, BLOCK, C, BLOCK_C)
        g = g.to(tl.float32)
    if KEEP:
        g = g * tl.load(keep + sample)
    line = partial + (sample * tl.num_programs(0) + tl.program_id(0)) * C
    tl.store(line + columns, tl.sum(g, 0), mask=columns < C)
    weights = load_rows(w_own, 0, C, BLOCK_C, C, BLOCK_C)
    g = g.to(weights.dtype)
    store_rows(scaled, sample * longest + first, longest - first, g, BLOCK, C, BLOCK_C)
    result = tl.dot(g, weights, input_precision=PRECISION)
    row = sample * length_own + first
    store_rows(grad_own, row, length_own - first, result, BLOCK, C, BLOCK_C)
    if MUTUAL:
        weights = load_rows(w_mutual, 0, C, BLOCK_C, C, BLOCK_C)
        result = tl.dot(g, weights, input_precision=PRECISION)
        row = sample * length_mutual + first
        store_rows(grad_mutual, row, length_mutual - first, result, BLOCK, C, BLOCK_C)
