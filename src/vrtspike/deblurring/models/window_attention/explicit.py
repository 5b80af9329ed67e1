"""The readable definition of window attention; the other implementations are tested against it."""

from __future__ import annotations

import torch
from torch import Tensor

from vrtspike.deblurring.models.windows import (
    MASKED_SCORE,
    WindowGeometry,
    WindowPlan,
    window_regions,
)


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
    back = tuple(-s for s in geometry.shift)
    x = qkv.unflatten(1, geometry.padded)
    x = _cut(x.roll(back, (1, 2, 3)) if any(back) else x, geometry)
    # Each (B, windows, heads, tokens, channels of a head).
    q, k, v = x.unflatten(-1, (3, heads, -1)).permute(3, 0, 1, 4, 2, 5)
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
    out = _join(out.transpose(2, 3).flatten(3), geometry)
    out = out.roll(geometry.shift, (1, 2, 3)) if any(back) else out
    return out.flatten(1, 3)


def _cut(x: Tensor, geometry: WindowGeometry) -> Tensor:
    """(B, D, H, W, C) to windows, (B, windows, tokens of a window, C)."""
    for axis, length in zip((1, 3, 5), geometry.window, strict=True):
        x = x.unflatten(axis, (-1, length))
    # Places of the windows first, (D / Wd, H / Wh, W / Ww), then the tokens within, (Wd, Wh, Ww).
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).flatten(4, 6).flatten(1, 3)


def _join(x: Tensor, geometry: WindowGeometry) -> Tensor:
    """The windows of :func:`_cut` to (B, D, H, W, C)."""
    sizes = zip(geometry.padded, geometry.window, strict=True)
    places = [whole // length for whole, length in sizes]
    x = x.unflatten(2, geometry.window).unflatten(1, places).permute(0, 1, 4, 2, 5, 3, 6, 7)
    return x.flatten(5, 6).flatten(3, 4).flatten(1, 2)


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
