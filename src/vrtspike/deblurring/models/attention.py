"""The attention of VRT's blocks: self attention in a window, mutual attention between two frames.

Sources: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2; shifted windows of
Swin (Liu et al., 2021) in three dimensions. Features are channels-last, (B, D, H, W, C).
"""

from __future__ import annotations

import itertools
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from vrtspike.deblurring.models.layers import Recomputed
from vrtspike.deblurring.models.recomputed_attention import recompute_attention
from vrtspike.deblurring.models.windows import Size3, WindowGeometry, WindowPlan

if TYPE_CHECKING:
    from vrtspike.deblurring.settings.model import VRTSettings

_TABLE_STD = 0.02
# The memory-efficient kernel has the gradient of a bias. cuDNN's, PyTorch's first choice on Hopper,
# has made NaN of windows of 64 tokens with a mask (pytorch issue 196678).
_KERNELS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# The memory-efficient kernel of CUDA takes heads whose width is a multiple of 8 in half precision.
_HEAD_MULTIPLE = 8
# It gives each problem a row of the CUDA grid, which has 65535 of them.
_MOST_PROBLEMS = 65535
# The gradient of a bias is as large as all scores of a call before it is summed: half a GiB.
_MOST_SCORES = 1 << 28


class Windows(NamedTuple):
    """The windows of a block on a map.

    Attributes:
        own: of self attention.
        mutual: of mutual attention, if there is any.
        relative_index: (N, N), row of the relative position bias table for each pair of tokens of
            a full window of self attention.
    """

    own: WindowPlan
    mutual: WindowPlan | None
    relative_index: Tensor


class WindowAttention(Recomputed):
    """Self attention in a window and, where asked for, mutual attention between its two frames.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww); mutual attention needs Wd = 2.
        settings: the heads, and how attention is computed, see :func:`window_attention`.
        mutual: add mutual attention.
    """

    position_bias: Tensor

    def __init__(
        self, channels: int, window: Size3, settings: VRTSettings, *, mutual: bool
    ) -> None:
        super().__init__()
        self.window = window
        self.heads = settings.NUM_HEADS
        self.mutual = mutual
        self.attention = settings.ATTENTION
        rows = math.prod(2 * length - 1 for length in window)
        self.relative_position_bias_table = nn.Parameter(torch.empty(rows, self.heads))
        nn.init.normal_(self.relative_position_bias_table, std=_TABLE_STD)
        self.qkv_self = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(2 * channels if mutual else channels, channels)
        if mutual:
            self.qkv_mut = nn.Linear(channels, 3 * channels)
            # A function of the configuration, so it is no part of a checkpoint.
            bias = sine_position_bias(window[1], window[2], channels)
            self.register_buffer("position_bias", bias, persistent=False)

    def extra_repr(self) -> str:
        """Window, heads and kind, for ``print(model)``."""
        kind = "mutual and self" if self.mutual else "self"
        return f"{kind}, window={self.window}, heads={self.heads}"

    def relative_bias(self, windows: Windows) -> Tensor:
        """(heads, N, N) bias; a clipped window takes the leading corner of the full index."""
        tokens = windows.own.tokens
        corner = windows.relative_index[:tokens, :tokens].flatten()
        rows = self.relative_position_bias_table.index_select(0, corner)
        return rows.view(tokens, tokens, self.heads).permute(2, 0, 1)

    def position_code(self, mutual: WindowGeometry) -> Tensor:
        """The sine code of each token's place in its (shifted) window, (H', W', C), padded map.

        A clipped window takes the leading corner of the full window's code.
        """
        _, height, width = mutual.window
        code = self.position_bias.view(*self.window[1:], -1)[:height, :width]
        # Tiling commutes with the cyclic shift.
        code = code.roll(mutual.shift[1:], (0, 1))
        return code.repeat(mutual.padded[1] // height, mutual.padded[2] // width, 1)

    def attend(self, qkv: Tensor, bias: Tensor | None, plan: WindowPlan) -> Tensor:
        """Attention in the windows of a padded map, (B, D', H', W', 3C) -> (B, D, H, W, C)."""
        out = window_attention(qkv.flatten(1, 3), bias, plan, self.heads, self.attention)
        depth, height, width = plan.geometry.size
        return out.unflatten(1, plan.geometry.padded)[:, :depth, :height, :width]

    def forward(self, x: Tensor, windows: Windows) -> Tensor:
        """Attention, (B, D, H, W, C) -> same shape; ``windows`` are those of the block."""
        own, mutual = windows.own, windows.mutual
        qkv = self.qkv_self(functional.pad(x, own.geometry.pad))
        out = self.attend(qkv, self.relative_bias(windows), own)
        if mutual is not None:
            tokens = functional.pad(x, mutual.geometry.pad)
            tokens = tokens + self.position_code(mutual.geometry).to(tokens.dtype)
            out = torch.cat((self.attend(self.qkv_mut(tokens), None, mutual), out), dim=-1)
        projected: Tensor = self.proj(out)
        return projected


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


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
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
    # With another order of the scores in memory PyTorch takes no kernel and keeps all scores.
    mask = None if bias is None else bias.contiguous()[None]
    step = min(max(_MOST_SCORES // (heads * tokens**2), 1), _MOST_PROBLEMS)
    with sdpa_kernel(_KERNELS) if q.is_cuda else nullcontext():
        results = [
            functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=width**-0.5)
            for q, k, v in zip(*(t.split(step) for t in (q, k, v)), strict=True)
        ]
    out = results[0] if len(results) == 1 else torch.cat(results)
    return out[..., :width]


def relative_position_index(window: Size3) -> Tensor:
    """Row of the relative position bias table for every pair of tokens of a window.

    Returns:
        (N, N) int64 with N = Wd * Wh * Ww and values in [0, (2Wd-1)(2Wh-1)(2Ww-1)).
    """
    axes = [np.arange(length) for length in window]
    coordinates = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(3, -1)
    relative = coordinates[:, :, None] - coordinates[:, None, :]
    index = np.zeros(relative.shape[1:], dtype=np.int64)
    for axis, length in enumerate(window):
        index = index * (2 * length - 1) + relative[axis] + length - 1
    return torch.tensor(index)


def sine_position_bias(height: int, width: int, channels: int) -> Tensor:
    """Two-dimensional sine position encoding, normalised to 2 pi, y before x.

    Source: the encoding of DETR (Carion et al., 2020), which VRT adds to the tokens before mutual
    attention.

    Args:
        height: rows of the window.
        width: its columns.
        channels: a multiple of 4: sine and cosine, of rows and of columns.

    Returns:
        (1, height * width, channels) float32.
    """
    half = channels // 2
    # The published encoding normalises by the last coordinate plus this epsilon.
    epsilon = 1e-6
    y = torch.arange(1, height + 1, dtype=torch.float32) / (height + epsilon) * (2 * math.pi)
    x = torch.arange(1, width + 1, dtype=torch.float32) / (width + epsilon) * (2 * math.pi)
    exponent = 2 * torch.div(torch.arange(half), 2, rounding_mode="floor") / half
    period = 10000.0 ** exponent.to(torch.float32)

    def encode(coordinates: Tensor) -> Tensor:
        angle = coordinates[:, None] / period
        pairs = torch.stack((angle[:, 0::2].sin(), angle[:, 1::2].cos()), dim=2)
        return pairs.flatten(1)

    rows = encode(y)[:, None, :].expand(height, width, half)
    columns = encode(x)[None, :, :].expand(height, width, half)
    return torch.cat((rows, columns), dim=2).reshape(1, height * width, channels)
