"""Triton kernels of the backward pass of window attention.

:func:`gradient_kernel` has one program for a head of a window; it makes each tile of scores once
for the gradients of queries, keys and values, and the sums of grad * out that the softmax needs.
Queries, their gradients' sums and the gradients of the results stay on the chip while the keys pass
by. Where the queries' gradients are too many for the registers, queries are taken in groups, and
the gradients of keys and values wait in their place in memory, in the type of the result, for the
next group.

The gradient of the bias, N x N for each head, is a sum over all windows. It fits into the registers
of no program that holds a large window, and adding N x N numbers for each window to memory would
take longer than making the scores again (a number for each score, against some four instructions
for 32 of them), so :func:`bias_kernel` makes them again for one tile of the bias, window after
window, with the sum in registers. It writes a sum for each part of the windows, which are added in
a fixed order: the gradient is the same in every run.

Source: Dao et al., 2022, "FlashAttention".
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types. A
# condition that is compiled away stands around one that is not, not joined with it.
# ruff: noqa: ANN001, ANN201, ANN202, SIM102
# Tuples grow block by block while a kernel is compiled.
# mypy: disable-error-code="no-untyped-def,assignment"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.ops.window_attention.kernel_parts import (
    LOG2_E,
    NUMBERS,
    biased_scores,
    delta_units,
    load_bias,
    load_head,
    load_identity,
    positions_in_first,
    score_gradients,
    softmax_delta,
    softmax_weights,
    store_zeros,
    token_offsets,
    valid_elements,
    window_positions,
)


@triton.jit
def _add_group(
    first, SIZE: tl.constexpr, ALONE: tl.constexpr, values, grads, out, grad, eye, tile, query,
    key, place, regions, lse, delta, window, channels: tl.constexpr, scale, N: tl.constexpr,
    STRIDE: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, HAS_BIAS: tl.constexpr, BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds what ``SIZE`` blocks of queries from block ``first`` on contribute.

    ALONE: there are no others. All pointers are those of the sample, head and window.
    """
    unit = scale * LOG2_E
    near_q = tl.arange(0, BLOCK_M)
    near_k = tl.arange(0, BLOCK_N)
    head_columns = tl.arange(0, BLOCK_D)[None, :]
    q, g, deltas, norms, grad_q = (), (), (), (), ()
    for i in tl.static_range(SIZE):
        rows = (first + i) * BLOCK_M + near_q
        at_q = token_offsets(window_positions(query, window, rows, N, BLOCK_M), 3 * channels)
        at_out = token_offsets(window_positions(place, window, rows, N, BLOCK_M), channels)
        exists = valid_elements(rows, N, D, BLOCK_D)
        # Zero beyond the last query, as all of its weights are: nothing comes from there.
        g_rows = tl.load(grad + at_out + head_columns, mask=exists, other=0.0)
        o_rows = tl.load(out + at_out + head_columns, mask=exists, other=0.0)
        row_delta, operand = softmax_delta(g_rows, o_rows, BY_PRODUCT)
        if HAS_BIAS:
            tl.store(delta + rows, row_delta, mask=rows < N)
        q += (load_head(values, at_q, D, BLOCK_D),)
        g += (g_rows,)
        deltas += (operand,)
        norms += (tl.load(lse + rows, mask=rows < N, other=float("inf")),)
        grad_q += (tl.zeros((BLOCK_M, BLOCK_D), tl.float32),)
    tile += first * BLOCK_M * STRIDE
    inverse = 1.0 / scale
    units = delta_units(BLOCK_N, grad.dtype.element_ty)
    for start in range(0, N, BLOCK_N):
        columns = start + near_k
        at_k = token_offsets(window_positions(key, window, columns, N, BLOCK_N), 3 * channels)
        k = load_head(values + channels, at_k, D, BLOCK_D)
        v = load_head(values + 2 * channels, at_k, D, BLOCK_D)
        into_k = grads + channels + at_k + head_columns
        exists_k = valid_elements(columns, N, D, BLOCK_D)
        if ALONE:
            grad_k = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
            grad_v = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        else:
            so_far = exists_k & (first > 0)
            grad_k = tl.load(into_k, mask=so_far, other=0.0).to(tl.float32) * inverse
            grad_v = tl.load(into_k + channels, mask=so_far, other=0.0).to(tl.float32)
        new_grad_q = ()
        for i in tl.static_range(SIZE):
            region_q = tl.load(regions + (first + i) * BLOCK_M + near_q)
            scores = biased_scores(
                q[i], k, eye, load_bias(tile + (i * BLOCK_M * STRIDE + start), HAS_BIAS), region_q,
                regions + columns, columns, scale, N, BLOCK_N, HAS_BIAS, BY_PRODUCT, MASKED,
            )  # fmt: skip
            weights = softmax_weights(scores, unit, norms[i])
            grad_v = tl.dot(tl.trans(weights.to(v.dtype)), g[i], grad_v)
            grad_scores = score_gradients(weights, g[i], v, deltas[i], units, BY_PRODUCT)
            grad_scores = grad_scores.to(k.dtype)
            grad_k = tl.dot(tl.trans(grad_scores), q[i], grad_k)
            new_grad_q += (tl.dot(grad_scores, k, grad_q[i]),)
        grad_q = new_grad_q
        tl.store(into_k, (grad_k * scale).to(grads.dtype.element_ty), mask=exists_k)
        tl.store(into_k + channels, grad_v.to(grads.dtype.element_ty), mask=exists_k)
    for i in tl.static_range(SIZE):
        rows = (first + i) * BLOCK_M + near_q
        at_q = token_offsets(window_positions(query, window, rows, N, BLOCK_M), 3 * channels)
        values_q = (grad_q[i] * scale).to(grads.dtype.element_ty)
        tl.store(grads + at_q + head_columns, values_q, mask=valid_elements(rows, N, D, BLOCK_D))


@triton.jit(do_not_specialize_on_alignment=["keep"])
def gradient_kernel(
    qkv, bias, query, key, place, regions, keep, out, lse, grad, delta, grads, first, windows,
    length, scale,
    N: tl.constexpr, STRIDE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr,
    HAS_BIAS: tl.constexpr, BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, keys and values of a head of a window.

    The axes of the grid are heads, windows from ``first`` on, and samples. With a bias also
    ``delta``, the sum of grad * out of each query, for :func:`bias_kernel`.
    """
    window = first + tl.program_id(1)
    sample = tl.program_id(2).to(tl.int64)
    head = tl.program_id(0)
    blocks: tl.constexpr = (N + BLOCK_M - 1) // BLOCK_M
    rest: tl.constexpr = blocks % GROUP
    channels: tl.constexpr = HEADS * D
    into = grads + sample * length * (3 * channels) + head * D
    if KEEP:
        if tl.load(keep + sample) == 0:
            for start in range(0, N, BLOCK_M):
                rows = start + tl.arange(0, BLOCK_M)
                at = token_offsets(window_positions(query, window, rows, N, BLOCK_M), 3 * channels)
                store_zeros(into, at, rows, N, D, BLOCK_D)
                at = token_offsets(window_positions(key, window, rows, N, BLOCK_M), 3 * channels)
                store_zeros(into + channels, at, rows, N, D, BLOCK_D)
                store_zeros(into + 2 * channels, at, rows, N, D, BLOCK_D)
            return
    eye = load_identity(bias, HEADS, STRIDE, BLOCK_M, BY_PRODUCT)
    near = tl.arange(0, BLOCK_M)[:, None] * STRIDE + tl.arange(0, BLOCK_N)[None, :]
    tile = bias + head * STRIDE * STRIDE + near
    values = qkv + sample * length * (3 * channels) + head * D
    out += sample * length * channels + head * D
    grad += sample * length * channels + head * D
    areas = regions + window * STRIDE
    line = ((sample * windows + window) * HEADS + head) * N
    if blocks <= GROUP:
        _add_group(
            0, blocks, True, values, into, out, grad, eye, tile, query, key, place, areas,
            lse + line, delta + line, window, channels, scale, N, STRIDE, D, BLOCK_D, BLOCK_M,
            BLOCK_N, HAS_BIAS, BY_PRODUCT, MASKED,
        )  # fmt: skip
    else:
        if rest:
            _add_group(
                0, rest, False, values, into, out, grad, eye, tile, query, key, place, areas,
                lse + line, delta + line, window, channels, scale, N, STRIDE, D, BLOCK_D, BLOCK_M,
                BLOCK_N, HAS_BIAS, BY_PRODUCT, MASKED,
            )  # fmt: skip
            # Other threads may read what these have written.
            tl.debug_barrier()
        for begin in range(rest, blocks, GROUP):
            _add_group(
                begin, GROUP, False, values, into, out, grad, eye, tile, query, key, place, areas,
                lse + line, delta + line, window, channels, scale, N, STRIDE, D, BLOCK_D, BLOCK_M,
                BLOCK_N, HAS_BIAS, BY_PRODUCT, MASKED,
            )  # fmt: skip
            tl.debug_barrier()


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=["keep"])
def bias_kernel(
    qkv, bias, place, regions, keep, lse, grad, delta, sums, first, last, share, shares, slot,
    windows, length, scale,
    N: tl.constexpr, STRIDE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HAS_BIAS: tl.constexpr,
    BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Gradient of a tile of the bias, summed over ``share`` windows of a sample.

    Queries, keys and results of a window are those of the same tokens (``place``). Runs after
    :func:`gradient_kernel`. There are ``shares`` parts of the windows ``first`` to ``last - 1`` in
    each sample; part i of a launch fills ``sums[slot + i]``, (heads, STRIDE, STRIDE) float32.
    """
    blocks_q: tl.constexpr = (N + BLOCK_M - 1) // BLOCK_M
    blocks_k: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    pid = tl.program_id(0)
    head = pid // (blocks_q * blocks_k)
    rows = (pid // blocks_k) % blocks_q * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % blocks_k * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(1)
    begin = first + part % shares * share
    sample = (part // shares).to(tl.int64)
    channels: tl.constexpr = HEADS * D
    values = qkv + sample * length * (3 * channels) + head * D
    wanted = grad + sample * length * channels + head * D + tl.arange(0, BLOCK_D)[None, :]
    unit = scale * LOG2_E
    place_in_head = rows[:, None] * STRIDE + columns[None, :]
    tile = load_bias(bias + head * STRIDE * STRIDE + place_in_head, HAS_BIAS)
    eye = load_identity(bias, HEADS, STRIDE, BLOCK_M, BY_PRODUCT)
    exists = valid_elements(rows, N, D, BLOCK_D)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    end = tl.minimum(begin + share, last)
    if KEEP:
        end = tl.where(tl.load(keep + sample) == 0, begin, end)
    near_q = positions_in_first(place, rows, N, BLOCK_M)
    near_k = positions_in_first(place, columns, N, BLOCK_N)
    for window in range(begin, end):
        if MASKED:
            to_first = tl.cast(0, tl.int64)
            near_q = window_positions(place, window, rows, N, BLOCK_M)
            near_k = window_positions(place, window, columns, N, BLOCK_N)
        else:
            # In a window of one region tokens have the same offsets as in the first window.
            to_first = tl.load(place + window * N).to(tl.int64)
        at_q = to_first * (3 * channels) + token_offsets(near_q, 3 * channels)
        at_k = to_first * (3 * channels) + token_offsets(near_k, 3 * channels)
        at_out = to_first * channels + token_offsets(near_q, channels)
        line = ((sample * windows + window) * HEADS + head) * N
        q = load_head(values, at_q, D, BLOCK_D)
        k = load_head(values + channels, at_k, D, BLOCK_D)
        v = load_head(values + 2 * channels, at_k, D, BLOCK_D)
        g = tl.load(wanted + at_out, mask=exists, other=0.0)
        norm = tl.load(lse + line + rows, mask=rows < N, other=float("inf"))
        row_delta = tl.load(delta + line + rows, mask=rows < N, other=0.0)
        areas = regions + window * STRIDE
        scores = biased_scores(
            q, k, eye, tile, tl.load(areas + rows), areas + columns, columns, scale, N, BLOCK_N,
            HAS_BIAS, BY_PRODUCT, MASKED,
        )  # fmt: skip
        weights = softmax_weights(scores, unit, norm)
        grad_weights = tl.dot(g, tl.trans(v))
        total = tl.fma(weights, grad_weights - row_delta[:, None], total)
    at = ((slot + part).to(tl.int64) * HEADS + head) * (STRIDE * STRIDE)
    tl.store(sums + at + place_in_head, total)
