"""Window attention that keeps queries, keys and values only, in pieces that stay in the cache.

Scores are made for a few windows at a time, used and dropped; the backward pass makes them again.
Nothing of size windows x heads x N x N ever exists. On a CPU this is also several times faster
than writing all scores out, because a piece never leaves the cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vrtspike.deblurring.models.mixed_precision import without_autocast
from vrtspike.deblurring.models.windows import WindowPlan

# Scores of one piece: 4 MiB in float32 stay in the cache of a CPU. A GPU has no such cache, and few
# large pieces (256 MiB) keep it busy.
_PIECE_CPU = 1 << 20
_PIECE_CUDA = 1 << 26


@torch.compiler.disable
def recompute_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention by recomputation; see :func:`window_attention`."""
    out: Tensor = _Recomputed.apply(qkv, bias, plan, heads)
    return out


class _Pieces:
    """Walks over the attention problems of a batch, some at a time.

    Args:
        qkv: (B, L, 3C).
        bias: (heads, N, N) or None.
        plan: the windows.
        heads: attention heads.
    """

    def __init__(self, qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> None:
        self.batch, self.length, width = qkv.shape
        self.channels = width // 3
        self.heads = heads
        self.tokens = plan.tokens
        self.plan, self.bias = plan, bias
        # Half precision would lose the small differences that softmax is about.
        self.dtype = torch.promote_types(qkv.dtype, torch.float32)
        self.scale = (self.channels // heads) ** -0.5
        piece = _PIECE_CUDA if qkv.is_cuda else _PIECE_CPU
        self.step = max(piece // (heads * self.tokens**2), 1)
        self.rows = qkv.contiguous().view(-1, width)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Positions of queries, keys and results in the batch, and the bias with the mask."""
        shape = (self.heads, self.tokens, self.tokens)
        places = (self.plan.query, self.plan.key, self.plan.out)
        bounds = itertools.pairwise(self.plan.bounds)
        for mask, (start, stop) in zip(self.plan.masks.to(self.dtype), bounds, strict=True):
            bias = mask.expand(shape) if self.bias is None else self.bias.to(self.dtype) + mask
            step = min(self.step, stop - start)
            biases = bias.expand(step, *shape).reshape(-1, *shape[1:])
            for sample in range(self.batch):
                for first in range(start, stop, step):
                    part = slice(first, min(first + step, stop))
                    offset = sample * self.length
                    queries, keys, outs = (rows[part] + offset for rows in places)
                    used = biases[: (part.stop - first) * self.heads]
                    yield queries.view(-1), keys.view(-1), outs.view(-1), used

    def split(self, rows: Tensor, parts: int = 1) -> Tensor:
        """(m * N, parts * C) rows -> (parts, m * heads, N, c)."""
        width = self.channels // self.heads
        x = rows.view(-1, self.tokens, parts, self.heads, width).permute(2, 0, 3, 1, 4)
        out = rows.new_empty(x.shape, dtype=self.dtype)
        return out.copy_(x).view(parts, -1, self.tokens, width)

    def join(self, *parts: Tensor) -> Tensor:
        """(m * heads, N, c) each -> (m * N, parts * C) rows, the inverse of :meth:`split`."""
        width = self.channels // self.heads
        first = parts[0].view(-1, self.heads, self.tokens, width)
        shape = (first.shape[0], self.tokens, len(parts), self.heads, width)
        rows = self.rows.new_empty(shape)
        for number, part in enumerate(parts):
            rows[:, :, number] = part.view_as(first).transpose(1, 2)
        return rows.view(-1, len(parts) * self.channels)

    def load(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values at the positions, (m * heads, N, c) each."""
        q = self.split(self.rows[:, : self.channels].index_select(0, queries))
        k, v = self.split(self.rows[:, self.channels :].index_select(0, keys), 2)
        return q[0], k, v

    def scratch(self) -> Tensor:
        """Memory for the scores of a piece; fresh memory for each piece would cost page faults."""
        return self.rows.new_empty(
            self.step * self.heads, self.tokens, self.tokens, dtype=self.dtype
        )

    def weights(self, q: Tensor, k: Tensor, bias: Tensor, scores: Tensor, out: Tensor) -> Tensor:
        """softmax(q k^T / sqrt(c) + bias), (m * heads, N, N), in ``out`` by way of ``scores``."""
        scores, out = scores[: q.shape[0]], out[: q.shape[0]]
        torch.baddbmm(bias, q, k.transpose(1, 2), alpha=self.scale, out=scores)
        return torch.softmax(scores, dim=-1, out=out)


class _Recomputed(torch.autograd.Function):
    """Keeps queries, keys and values."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        qkv: Tensor,
        bias: Tensor | None,
        plan: WindowPlan,
        heads: int,
    ) -> Tensor:
        ctx.save_for_backward(qkv, bias)
        ctx.plan, ctx.heads = plan, heads
        pieces = _Pieces(qkv, bias, plan, heads)
        result = qkv.new_empty(*qkv.shape[:2], pieces.channels)
        rows = result.view(-1, pieces.channels)
        scores, weights = pieces.scratch(), pieces.scratch()
        with without_autocast(qkv):
            for queries, keys, places, bias_and_mask in pieces:
                q, k, v = pieces.load(queries, keys)
                attended = torch.bmm(pieces.weights(q, k, bias_and_mask, scores, weights), v)
                rows.index_copy_(0, places, pieces.join(attended))
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        qkv, bias = ctx.saved_tensors
        pieces = _Pieces(qkv, bias, ctx.plan, ctx.heads)
        grads = torch.empty_like(qkv, memory_format=torch.contiguous_format)
        rows = grads.view(pieces.rows.shape)
        grad_rows = grad.contiguous().view(-1, pieces.channels)
        shape = (pieces.heads, pieces.tokens, pieces.tokens)
        grad_bias = None if bias is None else qkv.new_zeros(shape, dtype=pieces.dtype)
        scores, kept, other = pieces.scratch(), pieces.scratch(), pieces.scratch()
        for queries, keys, places, bias_and_mask in pieces:
            q, k, v = pieces.load(queries, keys)
            g = pieces.split(grad_rows.index_select(0, places))[0]
            weights = pieces.weights(q, k, bias_and_mask, scores, kept)
            grad_v = torch.bmm(weights.transpose(1, 2), g)
            grad_weights = torch.bmm(g, v.transpose(1, 2), out=scores[: q.shape[0]])
            grad_scores = torch.ops.aten._softmax_backward_data.out(
                grad_weights, weights, -1, pieces.dtype, grad_input=other[: q.shape[0]]
            )
            if grad_bias is not None:
                grad_bias += grad_scores.view(-1, *shape).sum(0)
            # beta 0: the first argument only has the shape.
            grad_q = torch.baddbmm(q, grad_scores, k, beta=0, alpha=pieces.scale)
            grad_k = torch.baddbmm(k, grad_scores.transpose(1, 2), q, beta=0, alpha=pieces.scale)
            rows[:, : pieces.channels].index_copy_(0, queries, pieces.join(grad_q))
            rows[:, pieces.channels :].index_copy_(0, keys, pieces.join(grad_k, grad_v))
        return grads, None if grad_bias is None else grad_bias.to(bias.dtype), None, None
