"""Window attention through PyTorch's fused ``scaled_dot_product_attention``."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models.windows import WindowPlan


def fused_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention, one fused call for all windows of a mask; see :func:`explicit_attention`.

    Which kernel runs is PyTorch's choice, by device, precision and channels of a head; on a CPU it
    is the explicit one, which keeps all scores, because the bias is learned.
    """
    batch, _, width = qkv.shape
    channels = width // 3

    def gather(positions: Tensor, third: int) -> Tensor:
        rows = qkv[..., third * channels : (third + 1) * channels].index_select(
            1, positions.flatten()
        )
        windows = rows.view(batch * positions.shape[0], plan.tokens, heads, -1)
        return windows.transpose(1, 2)

    results = []
    for mask, (start, stop) in zip(plan.masks, itertools.pairwise(plan.bounds), strict=True):
        query, key = plan.query[start:stop], plan.key[start:stop]
        scores_bias = mask[None, None] if bias is None else (bias + mask)[None]
        out = functional.scaled_dot_product_attention(
            gather(query, 0),
            gather(key, 1),
            gather(key, 2),
            attn_mask=scores_bias.to(qkv.dtype),
        )
        results.append(out.transpose(1, 2).reshape(batch, -1, channels))
    order = plan.out.flatten().to(torch.int64)
    result = torch.empty_like(qkv[..., :channels], memory_format=torch.contiguous_format)
    return result.index_copy(1, order, torch.cat(results, dim=1))
