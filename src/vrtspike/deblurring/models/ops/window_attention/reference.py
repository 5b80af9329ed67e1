"""Window attention with every score written out: the reference of all other implementations."""

from __future__ import annotations

import torch
from torch import Tensor

from vrtspike.deblurring.models.ops.window_attention.windows import MASKED_SCORE, WindowPlan


def reference_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention; arguments as for :func:`window_attention`."""
    places = (plan.query, plan.key, plan.key)
    q, k, v = (gather(qkv, at, heads, i) for i, at in enumerate(places))
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if plan.unmasked < len(plan.query):
        regions = plan.regions[:, : plan.tokens]
        mask = (regions[:, :, None] != regions[:, None, :]) * MASKED_SCORE
        scores = (scores.unflatten(0, (-1, len(plan.query))) + mask[:, None]).flatten(0, 1)
    out = scores.softmax(dim=-1).to(v.dtype) @ v
    return scatter(joined_heads(out, len(plan.query)), plan)


def gather(qkv: Tensor, positions: Tensor, heads: int, third: int) -> Tensor:
    """Queries (0), keys (1) or values (2) of some windows.

    Args:
        qkv: (B, L, 3C).
        positions: (n, N), of the tokens of each window.
        heads: attention heads.
        third: which.

    Returns:
        (B * n, heads, N, C / heads).
    """
    part = qkv.chunk(3, dim=-1)[third].index_select(1, positions.flatten())
    return part.view(-1, positions.shape[1], heads, part.shape[2] // heads).transpose(1, 2)


def joined_heads(out: Tensor, windows: int) -> Tensor:
    """(B * windows, heads, N, C / heads) -> (B, windows * N, C)."""
    return out.transpose(1, 2).flatten(2).unflatten(0, (-1, windows)).flatten(1, 2)


def scatter(rows: Tensor, plan: WindowPlan) -> Tensor:
    """(B, n * N, C) in the order of windows -> (B, L, C) in that of the map."""
    return torch.empty_like(rows).index_copy(1, plan.out.flatten().to(torch.int64), rows)
