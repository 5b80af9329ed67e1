"""Triton kernels of the feed-forward layer; :mod:`.triton_feed_forward` calls them.

One program reads its tokens once and loops over blocks of hidden channels, as attention does over
keys: hidden values never leave the chip, and the backward pass makes them again. Norms, gates and
sums are in float32, the operands of products in the type of the weights.

Weights: ``w_gate`` and ``w_value`` (H, C), ``w_out`` (C, H); biases are float32. The second axis
of a grid is the sample; ``keep`` has the factor of each sample's branch, and a branch of factor 0
is not computed.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.token_ops.kernel_parts import (
    load_rows,
    load_rows_again,
    load_vector,
    normal,
    normalise,
    normalise_backward,
    store_rows,
)


@triton.jit
def _factor(keep, sample, KEEP: tl.constexpr):
    """The factor of a sample's branch."""
    if KEEP:
        return tl.load(keep + sample)
    return 1.0


@triton.jit
def _hidden(
    normed, w_gate, b_gate, w_value, b_value, start,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gate and value of hidden channels from ``start`` on, (rows, BLOCK_H) of float32 each."""
    hidden = start + tl.arange(0, BLOCK_H)
    gate_rows = load_rows(w_gate, start, H - start, BLOCK_H, C, BLOCK_C)
    value_rows = load_rows(w_value, start, H - start, BLOCK_H, C, BLOCK_C)
    gate = tl.dot(normed, tl.trans(gate_rows), input_precision=PRECISION)
    value = tl.dot(normed, tl.trans(value_rows), input_precision=PRECISION)
    gate += load_vector(b_gate, hidden, H)[None, :]
    value += load_vector(b_value, hidden, H)[None, :]
    return gate, value


@triton.jit
def _last_rows(
    w_out, start,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """What the last layer makes of hidden channels from ``start`` on: (BLOCK_H, BLOCK_C)."""
    columns = tl.arange(0, BLOCK_C)
    hidden = start + tl.arange(0, BLOCK_H)
    mask = (hidden < H)[:, None] & (columns < C)[None, :]
    return tl.load(w_out + columns[None, :] * H + hidden[:, None], mask=mask, other=0.0)


@triton.jit
def forward_kernel(
    x, keep, scale, shift, w_gate, b_gate, w_value, b_value, w_out, b_out, out, length,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK: tl.constexpr, KEEP: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """x + factor * (w_out (GELU(gate) * value) + b_out) of a block of tokens."""
    sample = tl.program_id(1)
    first = tl.program_id(0) * BLOCK
    count = length - first
    at = sample.to(tl.int64) * length + first
    columns = tl.arange(0, BLOCK_C)
    factor = _factor(keep, sample, KEEP)
    end = H
    if KEEP:
        end = tl.where(factor == 0, 0, H)

    stream = load_rows(x, at, count, BLOCK, C, BLOCK_C).to(tl.float32)
    gain, offset = load_vector(scale, columns, C), load_vector(shift, columns, C)
    normed = normalise(stream, gain, offset, C, BLOCK_C, EPSILON)
    normed = normed.to(w_gate.dtype.element_ty)
    total = tl.zeros((BLOCK, BLOCK_C), tl.float32)
    for start in range(0, end, BLOCK_H):
        gate, value = _hidden(
            normed, w_gate, b_gate, w_value, b_value, start, C, BLOCK_C, H, BLOCK_H, PRECISION
        )
        below = normal(gate, PRECISION)[0]
        product = (gate * below * value).to(w_gate.dtype.element_ty)
        last = _last_rows(w_out, start, C, BLOCK_C, H, BLOCK_H)
        total = tl.dot(product, last, total, input_precision=PRECISION)
    total += load_vector(b_out, columns, C)[None, :]
    stream = load_rows_again(x, at, count, BLOCK, C, BLOCK_C)
    store_rows(out, at, count, stream + factor * total, BLOCK, C, BLOCK_C)


@triton.jit
def rows_kernel(
    x, grad, keep, scale, shift, w_gate, b_gate, w_value, b_value, w_out, grad_x, normed, scaled,
    partial, length,
    C: tl.constexpr, WIDTH: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK: tl.constexpr, KEEP: tl.constexpr, EPSILON: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of a block of tokens, and what :func:`weights_kernel` reads.

    That is ``normed``, the normalised tokens with a one in column C, by which biases get their
    gradients from the same products, and ``scaled``, the branch's gradient, both in the type of
    the weights. A line of ``partial`` holds the block's part of the gradients of scale,
    shift and the last bias.
    """
    sample = tl.program_id(1)
    first = tl.program_id(0) * BLOCK
    count = length - first
    at = sample.to(tl.int64) * length + first
    columns = tl.arange(0, BLOCK_C)
    factor = _factor(keep, sample, KEEP)
    end = H
    if KEEP:
        end = tl.where(factor == 0, 0, H)

    stream = load_rows(x, at, count, BLOCK, C, BLOCK_C).to(tl.float32)
    gain, offset = load_vector(scale, columns, C), load_vector(shift, columns, C)
    n = normalise(stream, gain, offset, C, BLOCK_C, EPSILON)
    n = n.to(w_gate.dtype.element_ty)
    with_one = tl.where((columns == C)[None, :], 1.0, n)
    store_rows(normed, at, count, with_one, BLOCK, WIDTH, BLOCK_C)
    g = load_rows(grad, at, count, BLOCK, C, BLOCK_C).to(tl.float32)
    g = (g * factor).to(w_gate.dtype.element_ty)
    store_rows(scaled, at, count, g, BLOCK, C, BLOCK_C)
    total = tl.zeros((BLOCK, BLOCK_C), tl.float32)
    for start in range(0, end, BLOCK_H):
        gate, value = _hidden(
            n, w_gate, b_gate, w_value, b_value, start, C, BLOCK_C, H, BLOCK_H, PRECISION
        )
        last = _last_rows(w_out, start, C, BLOCK_C, H, BLOCK_H)
        grad_product = tl.dot(g, tl.trans(last), input_precision=PRECISION)
        below, density = normal(gate, PRECISION)
        grad_gate = grad_product * value * (below + gate * density)
        grad_value = grad_product * (gate * below)
        rows_a = load_rows(w_gate, start, H - start, BLOCK_H, C, BLOCK_C)
        rows_b = load_rows(w_value, start, H - start, BLOCK_H, C, BLOCK_C)
        total = tl.dot(grad_gate.to(rows_a.dtype), rows_a, total, input_precision=PRECISION)
        total = tl.dot(grad_value.to(rows_b.dtype), rows_b, total, input_precision=PRECISION)
    line = partial + (sample * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * (3 * C)
    stream = load_rows_again(x, at, count, BLOCK, C, BLOCK_C)
    total = normalise_backward(total, stream, gain, line, C, BLOCK_C, EPSILON)
    exact = load_rows_again(grad, at, count, BLOCK, C, BLOCK_C)
    tl.store(line + 2 * C + columns, tl.sum(exact, 0) * factor, mask=columns < C)
    store_rows(grad_x, at, count, exact + total, BLOCK, C, BLOCK_C)


@triton.jit
def weights_kernel(
    normed, scaled, keep, w_gate, b_gate, w_value, b_value, w_out, partial, samples, length,
    C: tl.constexpr, WIDTH: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Weight gradients of a block of hidden channels, summed over a share of the tokens.

    ``normed`` and ``scaled`` are what :func:`rows_kernel` left. Axis 0 of the grid is the block,
    axis 1 the share. A line of ``partial`` holds the gradients of the gate's, the value's and the
    last weights, then of the gate's and the value's biases.
    """
    start = tl.program_id(0) * BLOCK_H
    last = tl.trans(_last_rows(w_out, start, C, BLOCK_C, H, BLOCK_H))
    sum_a = tl.zeros((BLOCK_H, BLOCK_C), tl.float32)
    sum_b = tl.zeros((BLOCK_H, BLOCK_C), tl.float32)
    sum_last = tl.zeros((BLOCK_H, BLOCK_C), tl.float32)
    for sample in range(samples):
        end = length
        if KEEP:
            end = tl.where(tl.load(keep + sample) == 0, 0, length)
        for first in range(tl.program_id(1) * BLOCK, end, tl.num_programs(1) * BLOCK):
            at = tl.cast(sample, tl.int64) * length + first
            n = load_rows(normed, at, length - first, BLOCK, WIDTH, BLOCK_C)
            g = load_rows(scaled, at, length - first, BLOCK, C, BLOCK_C)
            gate, value = _hidden(
                n, w_gate, b_gate, w_value, b_value, start, C, BLOCK_C, H, BLOCK_H, PRECISION
            )
            grad_product = tl.dot(g, last, input_precision=PRECISION)
            below, density = normal(gate, PRECISION)
            gated = gate * below
            product = tl.trans((gated * value).to(g.dtype))
            sum_last = tl.dot(product, g, sum_last, input_precision=PRECISION)
            half = tl.trans((grad_product * gated).to(g.dtype))
            sum_b = tl.dot(half, n, sum_b, input_precision=PRECISION)
            half = tl.trans((grad_product * value * (below + gate * density)).to(g.dtype))
            sum_a = tl.dot(half, n, sum_a, input_precision=PRECISION)
    hidden, columns = start + tl.arange(0, BLOCK_H), tl.arange(0, BLOCK_C)
    own = partial + tl.program_id(1).to(tl.int64) * (3 * H * C + 2 * H)
    store_rows(own, start, H - start, sum_a, BLOCK_H, C, BLOCK_C)
    store_rows(own + H * C, start, H - start, sum_b, BLOCK_H, C, BLOCK_C)
    valid = (hidden < H)[:, None]
    transposed = own + 2 * H * C + columns[None, :] * H + hidden[:, None]
    tl.store(transposed, sum_last, mask=valid & (columns < C)[None, :])
    biases = own + 3 * H * C + hidden[:, None] + tl.zeros_like(columns)[None, :]
    tl.store(biases, sum_a, mask=valid & (columns == C)[None, :])
    tl.store(biases + H, sum_b, mask=valid & (columns == C)[None, :])
