"""The readable definition of window attention; the other implementations are tested against it."""

from __future__ import annotations

import torch
from einops import rearrange
from torch import Tensor

from vrtspike.models.windows import MASKED_SCORE, WindowPlan, window_regions


def explicit_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention with every score written out.

    Args:
        qkv: (B, L, 3C), queries, keys and values of the L = D * H * W tokens of the padded map;
            within each third the heads come first, then the channels of a head.
        bias: (heads, N, N) added to the scores of every window, or None.
        plan: the windows.
        heads: attention heads; C must be a multiple.

    Returns:
        (B, L, C) in the order of the map.
    """
    geometry = plan.geometry
    depth, height, width = geometry.padded
    wd, wh, ww = geometry.window
    back = tuple(-s for s in geometry.shift)
    pattern = "b (d wd) (h wh) (w ww) c -> b (d h w) (wd wh ww) c"
    sizes = {"wd": wd, "wh": wh, "ww": ww}

    x = qkv.unflatten(1, geometry.padded)
    x = rearrange(x.roll(back, (1, 2, 3)) if any(back) else x, pattern, **sizes)
    q, k, v = rearrange(x, "b n t (three head c) -> three b n head t c", three=3, head=heads)
    mask = _shift_mask(plan, qkv.device)  # (windows, 1, N, N) or None
    if geometry.mutual:
        half = geometry.tokens // 2
        first, second = slice(None, half), slice(half, None)
        part = None if mask is None else mask[..., first, first]
        out = torch.cat(
            (
                _attend(q[..., second, :], k[..., first, :], v[..., first, :], bias, part),
                _attend(q[..., first, :], k[..., second, :], v[..., second, :], bias, part),
            ),
            dim=-2,
        )
    else:
        out = _attend(q, k, v, bias, mask)
    out = rearrange(out, "b n head t c -> b n t (head c)")
    left, right = pattern.split(" -> ")
    grid = {"d": depth // wd, "h": height // wh, "w": width // ww}
    out = rearrange(out, f"{right} -> {left}", **sizes, **grid)
    out = out.roll(geometry.shift, (1, 2, 3)) if any(back) else out
    return out.flatten(1, 3)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """softmax(q k^T / sqrt(channels of a head) + bias + mask) v."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1).to(v.dtype) @ v


def _shift_mask(plan: WindowPlan, device: torch.device) -> Tensor | None:
    if not any(plan.geometry.shift):
        return None
    regions = torch.tensor(window_regions(plan.geometry), device=device)
    differ = regions[:, None, :] != regions[:, :, None]
    return (differ.to(torch.float32) * MASKED_SCORE)[:, None]
