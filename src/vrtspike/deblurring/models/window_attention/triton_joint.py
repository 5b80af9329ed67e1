"""Triton kernel of the backward pass of window attention that makes scores once for all gradients.

Where all scores of a window and head are one tile, the gradient of the bias, which is as large,
fits into the registers of a program beside what the other gradients need. Then a program takes a
share of the windows, one after the other, and adds up what each has for the bias of its head. It
writes its sum once; the sums of all shares are added in a fixed order, so that the gradient is the
same in every run. Larger windows take the kernels of :mod:`.triton_gradients`.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.window_attention.triton_kernels import (
    LOG2_E,
    NUMBERS,
    biased_scores,
    elements,
    features,
    identity,
    inside,
    laid_bias,
    positions_of,
    powers,
    score_gradients,
    taken_off,
    units_of_parts,
)


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=["keep"])
def joint_kernel(
    qkv, bias, place, regions, keep, out, lse, grad, sums, grads, first, last, share, shares, slot,
    windows, length, scale,
    N: tl.constexpr, STRIDE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr, BY_PRODUCT: tl.constexpr,
    MASKED: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, keys, values and, summed over ``share`` windows, of a head's bias.

    Queries, keys and results of a window are those of the same tokens (``place``); ``BLOCK`` of
    them are at least N. The axes of the grid are heads and shares: there are ``shares`` of the
    windows ``first`` to ``last - 1`` in each sample; share i of a launch fills ``sums[slot + i]``,
    (heads, STRIDE, STRIDE) float32.
    """
    head = tl.program_id(0)
    part = tl.program_id(1)
    begin = first + part % shares * share
    sample = (part // shares).to(tl.int64)
    end = tl.minimum(begin + share, last)
    if KEEP:
        end = tl.where(tl.load(keep + sample) == 0, begin, end)
    channels: tl.constexpr = HEADS * D
    to_head = sample * length * channels + head * D
    to_values = sample * length * (3 * channels) + head * D
    rows = tl.arange(0, BLOCK)
    head_columns = tl.arange(0, BLOCK_D)[None, :]
    exists = inside(rows, N, D, BLOCK_D)
    near = head * STRIDE * STRIDE + rows[:, None] * STRIDE + rows[None, :]
    laid = laid_bias(bias + near, HAS_BIAS)
    eye = identity(bias, HEADS, STRIDE, BLOCK, BY_PRODUCT)
    units = units_of_parts(BLOCK, grad.dtype.element_ty)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for window in range(begin, end):
        areas = regions + window * STRIDE
        positions = positions_of(place, window, rows, N, BLOCK)
        at = elements(positions, 3 * channels)
        at_out = elements(positions, channels) + head_columns
        q = features(qkv + to_values, at, D, BLOCK_D)
        k = features(qkv + to_values + channels, at, D, BLOCK_D)
        v = features(qkv + to_values + 2 * channels, at, D, BLOCK_D)
        # Zero beyond the last query, as all of its weights are: nothing comes from there.
        g = tl.load(grad + to_head + at_out, mask=exists, other=0.0)
        o = tl.load(out + to_head + at_out, mask=exists, other=0.0)
        line = ((sample * windows + window) * HEADS + head) * N
        norm = tl.load(lse + line + rows, mask=rows < N, other=float("inf"))
        _, off = taken_off(g, o, BY_PRODUCT)
        into = grads + to_values + at + head_columns
        type_ = grads.dtype.element_ty
        scores = biased_scores(
            q, k, eye, laid, tl.load(areas + rows), areas + rows, rows, scale, N, BLOCK, HAS_BIAS,
            BY_PRODUCT, MASKED, PRECISION,
        )  # fmt: skip
        weights = powers(scores, scale * LOG2_E, norm)
        # Stored as soon as they are there: three tiles fill the registers.
        grad_v = tl.dot(tl.trans(weights.to(v.dtype)), g, input_precision=PRECISION)
        tl.store(into + 2 * channels, grad_v.to(type_), mask=exists)
        grad_scores = score_gradients(weights, g, v, off, units, BY_PRODUCT, PRECISION)
        total += grad_scores
        rounded = grad_scores.to(k.dtype)
        grad_k = tl.dot(tl.trans(rounded), q, input_precision=PRECISION)
        tl.store(into + channels, (grad_k * scale).to(type_), mask=exists)
        grad_q = tl.dot(rounded, k, input_precision=PRECISION)
        tl.store(into, (grad_q * scale).to(type_), mask=exists)
    slots = (slot + part).to(tl.int64) * (HEADS * STRIDE * STRIDE)
    tl.store(sums + slots + near, total)
