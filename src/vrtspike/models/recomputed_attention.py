"""Attention that keeps only queries, keys and values, in pieces that stay in the cache.

Scores are computed for a few windows at a time, used and dropped; the backward pass computes them
again. No tensor of size windows x heads x N x N ever exists. On a CPU this is also several times
faster than all scores at once, because a piece never leaves the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vrtspike.models.mixed_precision import without_autocast

PIECE_CPU = 1 << 20
"""Scores of one piece: 4 MiB in float32 stay in the cache of a CPU."""
PIECE_CUDA = 1 << 26
"""The same for a GPU: it has no such cache, and few large pieces (256 MiB) keep it busy."""


@torch.compiler.disable
def recomputed_attention(
    q: Tensor, k: Tensor, v: Tensor, masks: Tensor, counts: Sequence[int], bias: Tensor | None
) -> Tensor:
    """softmax(q k^T / sqrt(c) + bias + mask) v by recomputation.

    Args:
        q, k, v: (batch, heads, N, c).
        masks: (g, N, N), in float32: half precision would lose the small differences that decide
            the softmax.
        counts: number of successive entries of the batch with each mask.
        bias: (heads, N, N), or None.

    Returns:
        (batch, heads, N, c).
    """
    return _RecomputedAttention.apply(q, k, v, masks, counts, bias)


def _pieces(
    masks: Tensor, counts: Sequence[int], bias: Tensor | None, *tensors: Tensor
) -> Iterator[tuple[slice, Tensor, list[Tensor]]]:
    """Divide a batch into pieces.

    Args:
        masks: (g, N, N).
        counts: number of successive entries of the batch with each mask.
        bias: (heads, N, N), or None.
        tensors: (batch, heads, N, c).

    Yields:
        the numbers of the entries; their bias and mask, (m * heads, N, N), and their tensors,
        (m * heads, N, c).
    """
    _, heads, tokens, _ = tensors[0].shape
    dtype = torch.promote_types(tensors[0].dtype, masks.dtype)
    piece = PIECE_CUDA if masks.is_cuda else PIECE_CPU
    start = 0
    for mask, entries in zip(masks, counts, strict=True):
        if not entries:
            continue
        scores_bias = (mask if bias is None else bias + mask).to(dtype)
        step = min(max(piece // (heads * tokens**2), 1), entries)
        biases = scores_bias.expand(heads, tokens, tokens).repeat(step, 1, 1)
        end = start + entries
        for first in range(start, end, step):
            part = slice(first, min(first + step, end))
            operands = [tensor[part].to(dtype).flatten(0, 1) for tensor in tensors]
            yield part, biases[: len(operands[0])], operands
        start = end


class _RecomputedAttention(torch.autograd.Function):
    """Attention that keeps its inputs for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        q: Tensor,
        k: Tensor,
        v: Tensor,
        masks: Tensor,
        counts: Sequence[int],
        bias: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, masks, bias)
        ctx.counts = counts
        out = torch.empty_like(q)
        with without_autocast(q):
            for part, added, (queries, keys, values) in _pieces(masks, counts, bias, q, k, v):
                attended = torch.bmm(_weights(queries, keys, added), values)
                out[part] = attended.view(out[part].shape)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        q, k, v, masks, bias = ctx.saved_tensors
        grads = [torch.empty_like(t) for t in (q, k, v)]
        exact = torch.promote_types(q.dtype, masks.dtype)
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=exact)
        for part, added, operands in _pieces(masks, ctx.counts, bias, q, k, v, grad):
            queries, keys, values, g = operands
            weights = _weights(queries, keys, added)
            grad_weights = torch.bmm(g, values.transpose(1, 2))
            scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            if grad_bias is not None:
                grad_bias += scores.view(-1, *grad_bias.shape).sum(0)
            scale = q.shape[-1] ** -0.5
            piece_grads = (
                torch.bmm(scores, keys) * scale,
                torch.bmm(scores.transpose(1, 2), queries) * scale,
                torch.bmm(weights.transpose(1, 2), g),
            )
            for whole, piece_grad in zip(grads, piece_grads, strict=True):
                whole[part] = piece_grad.view(whole[part].shape)
        return *grads, None, None, None if grad_bias is None else grad_bias.to(bias.dtype)


def _weights(q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(c) + bias), (m * heads, N, N)."""
    scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
    return scores.softmax(dim=-1)
