"""The attention of VRT's blocks: self attention in a window, mutual attention between two frames.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.layers import Recomputed
from vrtspike.deblurring.models.window_attention import window_attention
from vrtspike.deblurring.models.windows import Size3, WindowGeometry, WindowPlan

_TABLE_STD = 0.02


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
        heads: attention heads.
        mutual: add mutual attention.
        attention: how it is computed, see :func:`window_attention`.
    """

    position_bias: Tensor

    def __init__(
        self, channels: int, window: Size3, heads: int, *, mutual: bool, attention: str
    ) -> None:
        super().__init__()
        self.window = window
        self.heads = heads
        self.mutual = mutual
        self.attention = attention
        rows = math.prod(2 * length - 1 for length in window)
        self.relative_position_bias_table = nn.Parameter(torch.empty(rows, heads))
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


def sine_position_bias(
    height: int, width: int, channels: int, temperature: float = 10000.0
) -> Tensor:
    """Two-dimensional sine position encoding, normalised to 2 pi, y before x.

    Source: the encoding of DETR (Carion et al., 2020), which VRT adds to the tokens before mutual
    attention.

    Args:
        height: rows of the window.
        width: its columns.
        channels: a multiple of 4: sine and cosine, of rows and of columns.
        temperature: of the periods.

    Returns:
        (1, height * width, channels) float32.
    """
    half = channels // 2
    # The published encoding normalises by the last coordinate plus this epsilon.
    epsilon = 1e-6
    y = torch.arange(1, height + 1, dtype=torch.float32) / (height + epsilon) * (2 * math.pi)
    x = torch.arange(1, width + 1, dtype=torch.float32) / (width + epsilon) * (2 * math.pi)
    exponent = 2 * torch.div(torch.arange(half), 2, rounding_mode="floor") / half
    period = temperature ** exponent.to(torch.float32)

    def encode(coordinates: Tensor) -> Tensor:
        angle = coordinates[:, None] / period
        pairs = torch.stack((angle[:, 0::2].sin(), angle[:, 1::2].cos()), dim=2)
        return pairs.flatten(1)

    rows = encode(y)[:, None, :].expand(height, width, half)
    columns = encode(x)[None, :, :].expand(height, width, half)
    return torch.cat((rows, columns), dim=2).reshape(1, height * width, channels)
