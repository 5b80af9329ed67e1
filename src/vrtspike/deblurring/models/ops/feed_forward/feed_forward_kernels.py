"""Triton kernels of the feed-forward layer; :mod:`.triton_feed_forward` calls them.

One program reads its tokens once and loops over blocks of hidden channels, as attention does over
keys: hidden values never leave the chip in the forward pass, and the backward pass makes them
again. Norms, gates and sums are in float32, the operands of products in the type of the weights.

Weights: ``w_gate`` and, if GATED, ``w_value`` (H, C), ``w_out`` (C, H); without a value the layer
is GELU alone. :func:`fold_kernel` packs them into whole tiles (H, C) with biases
(:func:`.pack_weights`), so that a loop over hidden channels has no condition, and folds the norm's
scale and shift into the first two, W (s x + t) + b = (W s) x + (W t + b), so that kernels which go
over all tokens only standardise these.

The second axis of a grid is the sample; ``keep`` has the factor of each sample's branch, and a
branch of factor 0 is not computed.
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
    load_vector,
    normal_distribution,
    pack_weights,
    standardise,
    standardise_backward,
    statistics,
    store_moments,
    store_rows,
    store_tile,
)


@triton.jit
def fold_kernel(
    w_gate, b_gate, w_value, b_value, w_out, scale, shift, gate, value, last,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
    GATED: tl.constexpr,
):  # fmt: skip
    """Weights as the other kernels take them, of a block of hidden channels."""
    start = tl.program_id(0) * BLOCK_H
    hidden, columns = start + tl.arange(0, BLOCK_H), tl.arange(0, BLOCK_C)
    gain, offset = load_vector(scale, columns, C), load_vector(shift, columns, C)
    pack_weights(w_gate, b_gate, gate, gain, offset, start, C, BLOCK_C, H, BLOCK_H)
    if GATED:
        pack_weights(w_value, b_value, value, gain, offset, start, C, BLOCK_C, H, BLOCK_H)
    mask = (hidden < H)[:, None] & (columns < C)[None, :]
    rows = tl.load(w_out + columns[None, :] * H + hidden[:, None], mask=mask, other=0.0)
    store_rows(last, start, BLOCK_H, rows, BLOCK_H, BLOCK_C, BLOCK_C)


@triton.jit
def factor_of(keep, sample, KEEP: tl.constexpr):
    """The factor of a sample's branch."""
    if KEEP:
        return tl.load(keep + sample)
    return 1.0


@triton.jit
def _hidden(
    normed, w_gate, w_value, start, BLOCK_C: tl.constexpr, BLOCK_H: tl.constexpr,
    GATED: tl.constexpr,
):  # fmt: skip
    """Gate and value of hidden channels from ``start`` on, (rows, BLOCK_H) of float32 each.

    The value is 1 where there is none.
    """
    gate = load_packed(w_gate, start, BLOCK_H, BLOCK_C)
    gate = tl.dot(normed, tl.trans(gate))
    if GATED:
        value = load_packed(w_value, start, BLOCK_H, BLOCK_C)
        return gate, tl.dot(normed, tl.trans(value))
    else:
        return gate, 1.0


@triton.jit(do_not_specialize_on_alignment=["keep"])
def forward_kernel(
    x, keep, w_gate, w_value, w_out, b_out, out, moments, length,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK: tl.constexpr, GATED: tl.constexpr, KEEP: tl.constexpr, EPSILON: tl.constexpr,
):  # fmt: skip
    """x + factor * (w_out (GELU(gate) * value) + b_out) of a block of tokens.

    ``moments`` gets mean and reciprocal standard deviation of each token.
    """
    sample = tl.program_id(1)
    first = tl.program_id(0) * BLOCK
    count = length - first
    at = sample.to(tl.int64) * length + first
    factor = factor_of(keep, sample, KEEP)
    if KEEP:
        if factor == 0:
            stream = load_rows(x, at, count, BLOCK, C, BLOCK_C)
            store_rows(out, at, count, stream, BLOCK, C, BLOCK_C)
            return

    rows = tl.arange(0, BLOCK)
    mean, rstd = statistics(x, at, rows, rows < count, C, EPSILON)
    store_moments(moments, at, count, mean, rstd, BLOCK)
    stream = load_rows(x, at, count, BLOCK, C, BLOCK_C).to(tl.float32)
    normed = append_ones(standardise(stream, mean, rstd), w_gate.dtype.element_ty, C, BLOCK_C)
    columns = tl.arange(0, BLOCK_C)
    total = tl.broadcast_to(load_vector(b_out, columns, C)[None, :], (BLOCK, BLOCK_C))
    for start in range(0, H, BLOCK_H):
        gate, value = _hidden(normed, w_gate, w_value, start, BLOCK_C, BLOCK_H, GATED)
        below = normal_distribution(gate)[0]
        product = (gate * below * value).to(w_gate.dtype.element_ty)
        total = tl.dot(product, load_packed(w_out, start, BLOCK_H, BLOCK_C), total)
    stream = load_rows(x, at, count, BLOCK, C, BLOCK_C, AGAIN).to(tl.float32)
    store_rows(out, at, count, stream + factor * total, BLOCK, C, BLOCK_C)


@triton.jit(do_not_specialize_on_alignment=["keep"])
def rows_kernel(
    x, grad, keep, moments, w_gate, w_value, w_out, grad_x, normed, scaled, grad_hidden, products,
    partial, length,
    C: tl.constexpr, WIDTH: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK: tl.constexpr, GATED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Gradient of a block of tokens, and what the gradients of the weights are sums over.

    That is ``normed``, the standardised tokens with a one in column C, by which biases get their
    gradients from the same products (what is beyond is not read); ``grad_hidden`` (tokens, 2 H),
    the gradients of gate and value, or (tokens, H); ``products`` (tokens, H) of both; and
    ``scaled``, the branch's gradient; all in the type of the weights. A line of ``partial`` holds
    the block's part of the gradient of the last bias.

    Hidden values are written here although they could be made again: that takes as many
    instructions as everything else in this kernel, which waits for these and not for memory.
    """
    sample = tl.program_id(1)
    first = tl.program_id(0) * BLOCK
    count = length - first
    at = sample.to(tl.int64) * length + first
    columns = tl.arange(0, BLOCK_C)
    factor = factor_of(keep, sample, KEEP)
    line = partial + (sample * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * C
    if KEEP:
        if factor == 0:
            g = load_rows(grad, at, count, BLOCK, C, BLOCK_C)
            store_rows(grad_x, at, count, g, BLOCK, C, BLOCK_C)
            tl.store(line + columns, tl.zeros((BLOCK_C,), tl.float32), mask=columns < C)
            # The weights' gradients are sums over all samples.
            zeros = tl.zeros((BLOCK, BLOCK_C), tl.float32)
            store_rows(normed, at, count, zeros, BLOCK, WIDTH, BLOCK_C)
            store_rows(scaled, at, count, zeros, BLOCK, C, BLOCK_C)
            zeros = tl.zeros((BLOCK, BLOCK_H), tl.float32)
            for start in range(0, H, BLOCK_H):
                store_tile(products, at, count, start, H, zeros, BLOCK, H, BLOCK_H)
            for start in range(0, (1 + GATED) * H, BLOCK_H):
                end = (1 + GATED) * H
                store_tile(grad_hidden, at, count, start, end, zeros, BLOCK, end, BLOCK_H)
            return

    stream = load_rows(x, at, count, BLOCK, C, BLOCK_C).to(tl.float32)
    mean, rstd = load_moments(moments, at, count, BLOCK)
    n = append_ones(standardise(stream, mean, rstd), w_gate.dtype.element_ty, C, BLOCK_C)
    store_rows(normed, at, count, n, BLOCK, WIDTH, BLOCK_C)
    g = load_rows(grad, at, count, BLOCK, C, BLOCK_C).to(tl.float32)
    g = (g * factor).to(w_gate.dtype.element_ty)
    store_rows(scaled, at, count, g, BLOCK, C, BLOCK_C)
    total = tl.zeros((BLOCK, BLOCK_C), tl.float32)
    for start in range(0, H, BLOCK_H):
        gate, value = _hidden(n, w_gate, w_value, start, BLOCK_C, BLOCK_H, GATED)
        last = load_packed(w_out, start, BLOCK_H, BLOCK_C)
        grad_product = tl.dot(g, tl.trans(last))
        below, density = normal_distribution(gate)
        gated = gate * below
        grad_gate = (grad_product * value * (below + gate * density)).to(g.dtype)
        rows_a = load_packed(w_gate, start, BLOCK_H, BLOCK_C)
        total = tl.dot(grad_gate, rows_a, total)
        if GATED:
            grad_value = (grad_product * gated).to(g.dtype)
            rows_b = load_packed(w_value, start, BLOCK_H, BLOCK_C)
            total = tl.dot(grad_value, rows_b, total)
        product = gated * value
        store_tile(products, at, count, start, H, product, BLOCK, H, BLOCK_H)
        store_tile(grad_hidden, at, count, start, H, grad_gate, BLOCK, (1 + GATED) * H, BLOCK_H)
        if GATED:
            store_tile(grad_hidden + H, at, count, start, H, grad_value, BLOCK, 2 * H, BLOCK_H)
    hat = standardise(load_rows(x, at, count, BLOCK, C, BLOCK_C, AGAIN).to(tl.float32), mean, rstd)
    total = tl.where((columns < C)[None, :], total, 0.0)  # not those of the biases
    total = standardise_backward(total, hat, rstd, C)
    exact = load_rows(grad, at, count, BLOCK, C, BLOCK_C, AGAIN).to(tl.float32)
    tl.store(line + columns, tl.sum(exact, 0) * factor, mask=columns < C)
    store_rows(grad_x, at, count, exact + total, BLOCK, C, BLOCK_C)
