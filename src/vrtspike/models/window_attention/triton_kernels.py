"""Triton kernels of window attention; :mod:`.triton_attention` calls them.

All read queries, keys and values where the linear layer left them, through the positions of a
plan: no roll, no partition, no copy. Scores exist only inside a kernel, in float32.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

MASKED_SCORE = tl.constexpr(-100.0)


@triton.jit
def _rows(base, positions, columns, stride, inside, width):
    """Load (rows, channels of a head) at token positions."""
    pointers = base + positions[:, None] * stride + columns[None, :]
    return tl.load(pointers, mask=inside[:, None] & (columns < width)[None, :], other=0.0)


@triton.jit
def _scores(
    q, k, bias, regions, window, head, rows, columns, scale, N: tl.constexpr,
    HAS_BIAS: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Scores of some queries and keys; -inf beyond the last key."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    inside = (rows < N)[:, None] & (columns < N)[None, :]
    if HAS_BIAS:
        place = head * N * N + rows[:, None] * N + columns[None, :]
        scores += tl.load(bias + place, mask=inside, other=0.0).to(tl.float32)
    if MASKED:
        region_q = tl.load(regions + window * N + rows, mask=rows < N, other=0)
        region_k = tl.load(regions + window * N + columns, mask=columns < N, other=0)
        scores += tl.where(region_q[:, None] == region_k[None, :], 0.0, MASKED_SCORE)
    return tl.where((columns < N)[None, :], scores, float("-inf"))


@triton.jit
def forward_kernel(
    qkv, bias, query, key, place, regions, out, lse, windows, length, scale,
    N: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention of a block of queries of one head of one problem, by online softmax."""
    blocks: tl.constexpr = (N + BLOCK - 1) // BLOCK
    channels: tl.constexpr = HEADS * D
    pid = tl.program_id(0)
    head = (pid // blocks) % HEADS
    problem = pid // (blocks * HEADS)
    window = problem % windows
    offset = (problem // windows).to(tl.int64) * length
    rows = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK_D)
    own = rows < N

    at_q = tl.load(query + window * N + rows, mask=own, other=0) + offset
    q = _rows(qkv + head * D, at_q, columns, 3 * channels, own, D)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    result = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    for start in range(0, N, BLOCK):
        others = start + tl.arange(0, BLOCK)
        at_k = tl.load(key + window * N + others, mask=others < N, other=0) + offset
        k = _rows(qkv + channels + head * D, at_k, columns, 3 * channels, others < N, D)
        v = _rows(qkv + 2 * channels + head * D, at_k, columns, 3 * channels, others < N, D)
        scores = _scores(
            q, k, bias, regions, window, head, rows, others, scale, N, HAS_BIAS, MASKED, PRECISION
        )
        new_top = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp(top - new_top)
        weights = tl.exp(scores - new_top[:, None])
        total = total * shrink + tl.sum(weights, 1)
        result = result * shrink[:, None]
        result += tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        top = new_top
    at_out = tl.load(place + window * N + rows, mask=own, other=0) + offset
    pointers = out + at_out[:, None] * channels + head * D + columns[None, :]
    result = result / total[:, None]
    tl.store(pointers, result.to(out.dtype.element_ty), mask=own[:, None] & (columns < D)[None, :])
    tl.store(lse + (problem * HEADS + head).to(tl.int64) * N + rows, top + tl.log(total), mask=own)


@triton.jit
def query_kernel(
    qkv, bias, query, key, place, regions, out, lse, grad, delta, grads, windows, length, scale,
    N: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of a block of queries, and ``delta``, the sum of grad * out of each of them."""
    blocks: tl.constexpr = (N + BLOCK - 1) // BLOCK
    channels: tl.constexpr = HEADS * D
    pid = tl.program_id(0)
    head = (pid // blocks) % HEADS
    problem = pid // (blocks * HEADS)
    window = problem % windows
    offset = (problem // windows).to(tl.int64) * length
    rows = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK_D)
    own = rows < N

    at_q = tl.load(query + window * N + rows, mask=own, other=0) + offset
    at_out = tl.load(place + window * N + rows, mask=own, other=0) + offset
    line = (problem * HEADS + head).to(tl.int64) * N
    q = _rows(qkv + head * D, at_q, columns, 3 * channels, own, D)
    g = _rows(grad + head * D, at_out, columns, channels, own, D)
    o = _rows(out + head * D, at_out, columns, channels, own, D)
    sums = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(delta + line + rows, sums, mask=own)
    norm = tl.load(lse + line + rows, mask=own, other=0.0)
    result = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    for start in range(0, N, BLOCK):
        others = start + tl.arange(0, BLOCK)
        at_k = tl.load(key + window * N + others, mask=others < N, other=0) + offset
        k = _rows(qkv + channels + head * D, at_k, columns, 3 * channels, others < N, D)
        v = _rows(qkv + 2 * channels + head * D, at_k, columns, 3 * channels, others < N, D)
        scores = _scores(
            q, k, bias, regions, window, head, rows, others, scale, N, HAS_BIAS, MASKED, PRECISION
        )
        weights = tl.exp(scores - norm[:, None])
        grad_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        grad_scores = weights * (grad_weights - sums[:, None])
        result += tl.dot(grad_scores.to(k.dtype), k, input_precision=PRECISION)
    pointers = grads + at_q[:, None] * (3 * channels) + head * D + columns[None, :]
    result = result * scale
    tl.store(
        pointers, result.to(grads.dtype.element_ty), mask=own[:, None] & (columns < D)[None, :]
    )


@triton.jit
def key_kernel(
    qkv, bias, query, key, place, regions, lse, grad, delta, grads, windows, length, scale,
    N: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys and values; runs after :func:`query_kernel`."""
    blocks: tl.constexpr = (N + BLOCK - 1) // BLOCK
    channels: tl.constexpr = HEADS * D
    pid = tl.program_id(0)
    head = (pid // blocks) % HEADS
    problem = pid // (blocks * HEADS)
    window = problem % windows
    offset = (problem // windows).to(tl.int64) * length
    others = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK_D)
    own = others < N

    at_k = tl.load(key + window * N + others, mask=own, other=0) + offset
    line = (problem * HEADS + head).to(tl.int64) * N
    k = _rows(qkv + channels + head * D, at_k, columns, 3 * channels, own, D)
    v = _rows(qkv + 2 * channels + head * D, at_k, columns, 3 * channels, own, D)
    grad_k = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    grad_v = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    for start in range(0, N, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        inside = rows < N
        at_q = tl.load(query + window * N + rows, mask=inside, other=0) + offset
        at_out = tl.load(place + window * N + rows, mask=inside, other=0) + offset
        q = _rows(qkv + head * D, at_q, columns, 3 * channels, inside, D)
        g = _rows(grad + head * D, at_out, columns, channels, inside, D)
        # Beyond the last query the gradient is zero, whatever the weights are there.
        norm = tl.load(lse + line + rows, mask=inside, other=0.0)
        sums = tl.load(delta + line + rows, mask=inside, other=0.0)
        scores = _scores(
            q, k, bias, regions, window, head, rows, others, scale, N, HAS_BIAS, MASKED, PRECISION
        )
        weights = tl.where(inside[:, None], tl.exp(scores - norm[:, None]), 0.0)
        grad_v += tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision=PRECISION)
        grad_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        grad_scores = weights * (grad_weights - sums[:, None])
        grad_k += tl.dot(tl.trans(grad_scores.to(q.dtype)), q, input_precision=PRECISION)
    pointers = grads + at_k[:, None] * (3 * channels) + channels + head * D + columns[None, :]
    inside = own[:, None] & (columns < D)[None, :]
    tl.store(pointers, (grad_k * scale).to(grads.dtype.element_ty), mask=inside)
    tl.store(pointers + channels, grad_v.to(grads.dtype.element_ty), mask=inside)


@triton.jit
def bias_kernel(
    qkv, bias, query, key, place, regions, lse, grad, delta, grad_bias, problems, windows, length,
    scale, share,
    N: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of a tile of the bias, summed in registers over ``share`` problems."""
    blocks: tl.constexpr = (N + BLOCK - 1) // BLOCK
    channels: tl.constexpr = HEADS * D
    tile = tl.program_id(0)
    head = tile // (blocks * blocks)
    rows = (tile // blocks) % blocks * BLOCK + tl.arange(0, BLOCK)
    others = tile % blocks * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK_D)
    inside = rows < N
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    first = tl.program_id(1) * share
    for problem in range(first, tl.minimum(first + share, problems)):
        window = problem % windows
        offset = (problem // windows).to(tl.int64) * length
        line = (problem * HEADS + head).to(tl.int64) * N
        at_q = tl.load(query + window * N + rows, mask=inside, other=0) + offset
        at_k = tl.load(key + window * N + others, mask=others < N, other=0) + offset
        at_out = tl.load(place + window * N + rows, mask=inside, other=0) + offset
        q = _rows(qkv + head * D, at_q, columns, 3 * channels, inside, D)
        k = _rows(qkv + channels + head * D, at_k, columns, 3 * channels, others < N, D)
        v = _rows(qkv + 2 * channels + head * D, at_k, columns, 3 * channels, others < N, D)
        g = _rows(grad + head * D, at_out, columns, channels, inside, D)
        norm = tl.load(lse + line + rows, mask=inside, other=0.0)
        sums = tl.load(delta + line + rows, mask=inside, other=0.0)
        scores = _scores(
            q, k, bias, regions, window, head, rows, others, scale, N, HAS_BIAS, MASKED, PRECISION
        )
        weights = tl.exp(scores - norm[:, None])
        grad_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        total += weights * (grad_weights - sums[:, None])
    pointers = grad_bias + head * N * N + rows[:, None] * N + others[None, :]
    tl.atomic_add(pointers, total, mask=inside[:, None] & (others < N)[None, :])
