"""Window attention: scaled dot-product attention inside windows of a (D, H, W) map.

Source: shifted windows of Swin (Liu et al., 2021) in three dimensions, and the mutual attention of
two frames, as VRT uses them (Liang et al., 2022, "VRT: A Video Restoration Transformer").
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models.recomputed_attention import recompute_attention
from vrtspike.deblurring.models.windows import WindowPlan

# The memory-efficient kernel of CUDA takes heads whose width is a multiple of 8 in half precision.
_HEAD_MULTIPLE = 8
# It gives each problem a row of the CUDA grid, which has 65535 of them.
_MOST_PROBLEMS = 65535
# The gradient of a bias is as large as all scores of a call before it is summed: half a GiB.
_MOST_SCORES = 1 << 28


def window_attention(
    qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int, attention: str = "auto"
) -> Tensor:
    """softmax(q k^T / sqrt(channels of a head) + bias + mask) v in every window of a map.

    Args:
        qkv: (B, L, 3C), queries, keys and values of the L = D * H * W tokens of the padded map;
            within each third the heads come first, then the channels of a head.
        bias: (heads, N, N) added to the scores of every window of N tokens, or None.
        plan: the windows; tokens of different regions of a shifted window do not see each other.
        heads: attention heads; C must be a multiple.
        attention: ``sdpa`` is PyTorch's scaled_dot_product_attention, which on a CPU keeps all
            scores, because the bias is learned; ``recompute`` makes the scores of a few windows at
            a time and again for the gradient; ``auto`` takes ``sdpa`` on a GPU, else ``recompute``.

    Returns:
        (B, L, C) in the order of the map.
    """
    if attention == "sdpa" or (attention == "auto" and qkv.is_cuda):
        return sdpa_attention(qkv, bias, plan, heads)
    return recompute_attention(qkv, bias, plan, heads)


def sdpa_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """:func:`window_attention` by ``scaled_dot_product_attention``, in turn for each mask."""
    results = []
    for mask, (start, stop) in zip(plan.masks, itertools.pairwise(plan.bounds), strict=True):
        places = (plan.query[start:stop], plan.key[start:stop], plan.key[start:stop])
        parts = zip(qkv.chunk(3, dim=-1), places, strict=True)
        q, k, v = (_split_heads(part, at, heads) for part, at in parts)
        scores_bias = mask.expand(1, *mask.shape) if bias is None else bias + mask
        out = attend(q, k, v, scores_bias.to(qkv.dtype)).transpose(1, 2).flatten(2)
        results.append(out.unflatten(0, (-1, stop - start)).flatten(1, 2))
    rows = torch.cat(results, dim=1)
    return torch.empty_like(rows).index_copy(1, plan.out.flatten(), rows)


def _split_heads(x: Tensor, positions: Tensor, heads: int) -> Tensor:
    """Tokens (B, L, C) at positions (n, N) -> (B * n, heads, N, C / heads)."""
    rows = x.index_select(1, positions.flatten())
    return rows.view(-1, positions.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """``scaled_dot_product_attention`` within what its kernels of CUDA take.

    Args:
        q: (problems, heads, N, c).
        k: likewise.
        v: likewise.
        bias: (heads or 1, N, N), added to the scores, or None.

    Returns:
        (problems, heads, N, c).
    """
    _, heads, tokens, width = q.shape
    spare = -width % _HEAD_MULTIPLE if q.is_cuda else 0
    q, k, v = (functional.pad(t, (0, spare)) if spare else t for t in (q, k, v))
    mask = None if bias is None else bias[None]
    step = min(max(_MOST_SCORES // (heads * tokens**2), 1), _MOST_PROBLEMS)
    results = [
        functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=width**-0.5)
        for q, k, v in zip(*(t.split(step) for t in (q, k, v)), strict=True)
    ]
    out = results[0] if len(results) == 1 else torch.cat(results)
    return out[..., :width]
