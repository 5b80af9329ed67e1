"""Temporal mutual self attention: the transformer blocks of VRT.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C), from the first to the last line of this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from vrtspike.models.feed_forward import normalised_geglu
from vrtspike.models.layers import GEGLU, DropPath
from vrtspike.models.window_attention import window_attention
from vrtspike.models.windows import (
    PlanCache,
    Size3,
    WindowPlan,
    clip_window,
    relative_position_index,
    sine_position_bias,
)

_TABLE_STD = 0.02

Recompute = Literal["none", "cheap"]


@dataclass(frozen=True)
class BlockOptions:
    """How blocks compute what they compute; nothing here changes a result.

    Attributes:
        attention: implementation of window attention (a name of ``window_attention``).
        checkpoint_attn: recompute the attention branch in the backward pass.
        checkpoint_ffn: recompute the feed-forward branch in the backward pass.
        recompute: ``cheap`` recomputes what costs little beside what it frees, whatever the
            switches say: the norm and the hidden values of the feed-forward layer. ``none`` keeps
            every intermediate result that PyTorch's own rules keep.
    """

    attention: str = "auto"
    checkpoint_attn: bool = False
    checkpoint_ffn: bool = False
    recompute: Recompute = "cheap"


class WindowAttention(nn.Module):
    """Self attention in a window and, where asked for, mutual attention between its two frames.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww); mutual attention needs Wd = 2.
        heads: attention heads.
        mutual: add mutual attention.
        attention: name of the implementation.
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
        nn.init.trunc_normal_(self.relative_position_bias_table, std=_TABLE_STD)
        self.qkv_self = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(2 * channels if mutual else channels, channels)
        if mutual:
            self.qkv_mut = nn.Linear(channels, 3 * channels)
            # A function of the configuration, so it is no part of a checkpoint.
            bias = sine_position_bias(window[1], window[2], channels)
            self.register_buffer("position_bias", bias, persistent=False)

    def _relative_bias(self, index: Tensor, tokens: int) -> Tensor:
        """(heads, N, N) bias; a clipped window takes the leading corner of the full index."""
        corner = index[:tokens, :tokens]
        return functional.embedding(corner, self.relative_position_bias_table).permute(2, 0, 1)

    def _place_code(self, x: Tensor, plan: WindowPlan) -> Tensor:
        """Add the sine code of each token's place in its window to a padded map."""
        _, window_h, window_w = plan.geometry.window
        code = self.position_bias.view(self.window[1], self.window[2], -1)
        # A clipped window takes the leading corner; tiling commutes with the cyclic shift.
        code = code[:window_h, :window_w].roll(plan.geometry.shift[1:], (0, 1))
        grid = x.unflatten(3, (-1, window_w)).unflatten(2, (-1, window_h))
        return (grid + code[:, None].to(x.dtype)).view(x.shape)

    def _attend(self, qkv: Tensor, plan: WindowPlan, bias: Tensor | None) -> Tensor:
        """Attention of a padded map, cropped to the map: (B, Dp, Hp, Wp, 3C) -> (B, D, H, W, C)."""
        out = window_attention(qkv.flatten(1, 3), bias, plan, self.heads, self.attention)
        depth, height, width = plan.geometry.size
        return out.unflatten(1, plan.geometry.padded)[:, :depth, :height, :width]

    def forward(
        self, x: Tensor, index: Tensor, plan: WindowPlan, mutual_plan: WindowPlan | None
    ) -> Tensor:
        """Attention of normalised features.

        Args:
            x: (B, D, H, W, C).
            index: (N, N) relative position index of the full window.
            plan: windows of self attention.
            mutual_plan: windows of mutual attention.

        Returns:
            (B, D, H, W, C).
        """
        padded = _pad(x, plan)
        bias = self._relative_bias(index, plan.tokens)
        out = self._attend(self.qkv_self(padded), plan, bias)
        if mutual_plan is not None:
            if mutual_plan.geometry.padded != plan.geometry.padded:
                padded = _pad(x, mutual_plan)
            qkv = self.qkv_mut(self._place_code(padded, mutual_plan))
            return self._project(self._attend(qkv, mutual_plan, None), out)
        return self.proj(out)

    def _project(self, mutual: Tensor, own: Tensor) -> Tensor:
        """``proj`` of [mutual, own] on the channels, without the copy that joins them."""
        channels = own.shape[-1]
        first = functional.linear(own, self.proj.weight[:, channels:], self.proj.bias)
        rows = mutual.reshape(-1, channels)
        both = torch.addmm(first.view_as(rows), rows, self.proj.weight[:, :channels].t())
        return both.view(own.shape)


def _pad(x: Tensor, plan: WindowPlan) -> Tensor:
    """Zeros at the end of each axis; they take part in attention as the weights expect."""
    pad = plan.geometry.pad
    return functional.pad(x, pad) if any(pad) else x


class TMSABlock(nn.Module):
    """x + attention(LN(x)), then x + GEGLU(LN(x)).

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        heads: attention heads.
        mutual: add mutual attention.
        mlp_ratio: hidden width of the feed-forward layer over ``channels``.
        drop_path: stochastic depth.
        options: how to compute.
    """

    def __init__(
        self,
        channels: int,
        window: Size3,
        heads: int,
        *,
        mutual: bool,
        mlp_ratio: float,
        drop_path: float,
        options: BlockOptions,
    ) -> None:
        super().__init__()
        self.options = options
        self.norm1 = nn.LayerNorm(channels)
        self.attn = WindowAttention(
            channels, window, heads, mutual=mutual, attention=options.attention
        )
        self.drop_path = DropPath(drop_path)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = GEGLU(channels, int(channels * mlp_ratio))

    def attention_branch(
        self, x: Tensor, index: Tensor, plan: WindowPlan, mutual_plan: WindowPlan | None
    ) -> Tensor:
        """Drop path of attention of the normalised features."""
        return self.drop_path(self.attn(self.norm1(x), index, plan, mutual_plan))

    def feed_forward_branch(self, x: Tensor) -> Tensor:
        """Drop path of the feed-forward layer of the normalised features."""
        if self.options.recompute == "cheap":
            return self.drop_path(normalised_geglu(x, self.norm2, self.mlp))
        return self.drop_path(self.mlp(self.norm2(x)))

    def forward(
        self, x: Tensor, index: Tensor, plan: WindowPlan, mutual_plan: WindowPlan | None
    ) -> Tensor:
        """(B, D, H, W, C) -> same shape; arguments as in :class:`WindowAttention`."""
        if self.options.checkpoint_attn and torch.is_grad_enabled():
            x = x + checkpoint(
                self.attention_branch, x, index, plan, mutual_plan, use_reentrant=False
            )
        else:
            x = x + self.attention_branch(x, index, plan, mutual_plan)
        # The cheap policy keeps nothing of this branch but its input, as a checkpoint would.
        keeps_input_only = self.options.recompute == "cheap"
        if self.options.checkpoint_ffn and torch.is_grad_enabled() and not keeps_input_only:
            return x + checkpoint(self.feed_forward_branch, x, use_reentrant=False)
        return x + self.feed_forward_branch(x)


class TMSAGroup(nn.Module):
    """Blocks of one window size; every second one has its windows shifted.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        heads: attention heads.
        mutual: add mutual attention; the window then holds two frames.
        mlp_ratio: hidden width of the feed-forward layers over ``channels``.
        drop_path: stochastic depth of each block; its length is the number of blocks.
        options: how to compute.
        plans: the plans of the model.
    """

    index: Tensor

    def __init__(
        self,
        channels: int,
        window: Size3,
        heads: int,
        *,
        mutual: bool,
        mlp_ratio: float,
        drop_path: Sequence[float],
        options: BlockOptions,
        plans: PlanCache,
    ) -> None:
        super().__init__()
        self.window = window
        self.mutual = mutual
        self.plans = plans
        self.blocks = nn.ModuleList(
            TMSABlock(
                channels,
                window,
                heads,
                mutual=mutual,
                mlp_ratio=mlp_ratio,
                drop_path=rate,
                options=options,
            )
            for rate in drop_path
        )
        # Equal for all blocks and a function of the configuration: kept once, in no checkpoint.
        self.register_buffer("index", relative_position_index(window), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, H, W, C) -> same shape."""
        size = (x.shape[1], x.shape[2], x.shape[3])
        for number, block in enumerate(self.blocks):
            shifted = number % 2 == 1
            geometry = clip_window(size, self.window, shifted=shifted, mutual=False)
            plan = self.plans(geometry, x.device)
            mutual_plan = None
            if self.mutual:
                geometry = clip_window(size, self.window, shifted=shifted, mutual=True)
                mutual_plan = self.plans(geometry, x.device)
            x = block(x, self.index, plan, mutual_plan)
        return x
