"""Temporal mutual self attention: the transformer blocks of VRT.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C), from the first to the last line of this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.layers import (
    GEGLU,
    KEPT,
    BlockBranches,
    Branch,
    DropPath,
    draw_branches,
    skip_branch,
)
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.recomputation import Recompute, keeps_all, recomputed
from vrtspike.deblurring.models.token_ops import (
    Layout,
    add_feed_forward,
    has_kernels,
    joins,
    layout,
    normalised_linear,
    triton_joined,
    triton_output,
    triton_projections,
)
from vrtspike.deblurring.models.window_attention import (
    check_implementation,
    leaves_out,
    window_attention,
)
from vrtspike.deblurring.models.windows import (
    PlanCache,
    Size3,
    WindowPlan,
    clip_window,
    relative_position_index,
    sine_position_bias,
)
from vrtspike.errors import ConfigError

_TABLE_STD = 0.02


@dataclass(frozen=True)
class BlockOptions:
    """How blocks compute what they compute; nothing here changes a result.

    Attributes:
        attention: implementation of window attention (a name of ``window_attention``).
        checkpoint_attn: recompute attention, and the alignment of frames, in the backward pass.
        checkpoint_ffn: recompute feed-forward layers, also that which fuses aligned frames.
        recompute: ``cheap`` recomputes what costs little beside what it frees, whatever the
            switches say: norms, and the hidden values of the feed-forward layer. ``none`` keeps
            every intermediate result that PyTorch's own rules keep. ``auto`` is ``none`` on large
            GPUs. Our own kernels of token layers keep the same under each.
    """

    attention: str = "auto"
    checkpoint_attn: bool = False
    checkpoint_ffn: bool = False
    recompute: Recompute = "auto"

    def __post_init__(self) -> None:
        """Refuse names that stand for nothing.

        Raises:
            ConfigError: no such implementation or policy.
        """
        check_implementation(self.attention)
        known = get_args(Recompute)
        if self.recompute not in known:
            raise ConfigError(
                f"unknown recomputation policy {self.recompute!r}; there are: {', '.join(known)}"
            )


class WindowAttention(nn.Module):
    """Self attention in a window and, where asked for, mutual attention between its two frames.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww); mutual attention needs Wd = 2.
        heads: attention heads.
        mutual: add mutual attention.
        options: how to compute.
    """

    position_bias: Tensor

    def __init__(
        self, channels: int, window: Size3, heads: int, *, mutual: bool, options: BlockOptions
    ) -> None:
        super().__init__()
        self.window = window
        self.heads = heads
        self.mutual = mutual
        self.options = options
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
        """Window, heads and implementation, for ``print(model)``."""
        kind = "mutual and self" if self.mutual else "self"
        return f"{kind}, window={self.window}, heads={self.heads}, {self.options.attention}"

    def _relative_bias(self, index: Tensor, tokens: int) -> Tensor:
        """(heads, N, N) bias; a clipped window takes the leading corner of the full index."""
        corner = index[:tokens, :tokens].flatten()
        rows = self.relative_position_bias_table.index_select(0, corner)
        return rows.view(tokens, tokens, self.heads).permute(2, 0, 1)

    def _places(self, plan: WindowPlan) -> Tensor:
        """The sine code of each place in a window, (Wh, Ww, C); a clipped one's leading corner."""
        _, window_h, window_w = plan.geometry.window
        code = self.position_bias.view(self.window[1], self.window[2], -1)
        return code[:window_h, :window_w]

    def _code(self, plan: WindowPlan) -> Tensor:
        """The sine code of each token's place in its window, (Hp, Wp, C) for a padded map."""
        _, window_h, window_w = plan.geometry.window
        _, height, width = plan.geometry.padded
        # Tiling commutes with the cyclic shift.
        code = self._places(plan).roll(plan.geometry.shift[1:], (0, 1))
        return code.repeat(height // window_h, width // window_w, 1)

    def _project_in(
        self, layer: nn.Linear, x: Tensor, norm: nn.LayerNorm, plan: WindowPlan, *, coded: bool
    ) -> Tensor:
        """Queries, keys and values of the padded map: (B, D, H, W, C) -> (B, L, 3C)."""
        geometry = plan.geometry
        code = self._code(plan) if coded else None
        is_whole = geometry.padded[1:] == geometry.size[1:]
        if is_whole and not keeps_all(self.options.recompute, x.device):
            rows = None if code is None else code.flatten(0, 1)
            length = math.prod(geometry.padded)
            return normalised_linear(x.flatten(1, 3), norm, layer, rows, length)
        # Zeros at the end of each axis take part in attention, as the weights expect.
        padded = functional.pad(norm(x), geometry.pad) if any(geometry.pad) else norm(x)
        return layer(padded if code is None else padded + code.to(padded.dtype)).flatten(1, 3)

    def _attend(self, qkv: Tensor, plan: WindowPlan, bias: Tensor | None) -> Tensor:
        """Attention of a padded map, cropped to the map: (B, L, 3C) -> (B, D, H, W, C)."""
        out = window_attention(qkv, bias, plan, self.heads, self.options.attention)
        depth, height, width = plan.geometry.size
        return out.unflatten(1, plan.geometry.padded)[:, :depth, :height, :width]

    def forward(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branch: Branch = KEPT,
    ) -> Tensor:
        """Features plus attention of the normalised features.

        Args:
            x: (B, D, H, W, C), not yet normalised.
            norm: the layer norm before attention.
            index: (N, N) relative position index of the full window.
            plan: windows of self attention.
            mutual_plan: windows of mutual attention.
            branch: what stochastic depth leaves of attention.

        Returns:
            (B, D, H, W, C).
        """
        if has_kernels(x):
            return self._by_own_kernels(x, norm, index, plan, mutual_plan, branch)
        qkv = self._project_in(self.qkv_self, x, norm, plan, coded=False)
        out = self._attend(qkv, plan, self._relative_bias(index, plan.tokens))
        if mutual_plan is None:
            return x + branch.scaled(self.proj(out))
        qkv = self._project_in(self.qkv_mut, x, norm, mutual_plan, coded=True)
        return x + branch.scaled(self._project(self._attend(qkv, mutual_plan, None), out))

    def _by_own_kernels(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branch: Branch,
    ) -> Tensor:
        """What :meth:`forward` gives, with norm, padding, codes and residual inside of kernels."""
        x, own, mutual, maps = self._attended(x, norm, index, plan, mutual_plan, branch)
        return triton_output(x, self.proj, own, mutual, maps, branch.factors)

    def add_both(
        self,
        x: Tensor,
        norms: tuple[nn.LayerNorm, nn.LayerNorm],
        mlp: GEGLU,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Tensor:
        """:meth:`forward`, then the feed-forward layer, by own kernels that join the two."""
        attention, fed = branches
        x, own, mutual, maps = self._attended(x, norms[0], index, plan, mutual_plan, attention)
        return triton_joined(
            x, self.proj, own, mutual, maps, norms[1], mlp, attention.factors, fed.factors
        )

    def _attended(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branch: Branch,
    ) -> tuple[Tensor, Tensor, Tensor | None, Layout]:
        """The features, both results of attention on padded maps, and how these lie."""
        maps = layout(plan.geometry, None if mutual_plan is None else mutual_plan.geometry)
        places = None if mutual_plan is None else self._places(mutual_plan).flatten(0, 1)
        second = None if mutual_plan is None else self.qkv_mut
        name, factors = self.options.attention, branch.factors
        # Other implementations go over all samples, so these have to hold numbers.
        keep = factors if leaves_out(name, x.device, autocast_dtype(x)) else None
        x, own, mutual = triton_projections(x, norm, self.qkv_self, second, places, maps, keep)
        bias = self._relative_bias(index, plan.tokens)
        out = window_attention(own, bias, plan, self.heads, name, keep)
        other = None
        if mutual_plan is not None:
            other = window_attention(mutual, None, mutual_plan, self.heads, name, keep)
        return x, out, other, maps

    def _project(self, mutual: Tensor, own: Tensor) -> Tensor:
        """``proj`` of [mutual, own] on the channels, without the copy that joins them."""
        channels = own.shape[-1]
        first = functional.linear(own, self.proj.weight[:, channels:], self.proj.bias)
        rows = mutual.reshape(-1, channels)
        both = torch.addmm(first.view_as(rows), rows, self.proj.weight[:, :channels].t())
        return both.view(own.shape)


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
        self.attn = WindowAttention(channels, window, heads, mutual=mutual, options=options)
        self.drop_path = DropPath(drop_path)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = GEGLU(channels, int(channels * mlp_ratio))

    def _add_attention(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branch: Branch,
    ) -> Tensor:
        return self.attn(x, self.norm1, index, plan, mutual_plan, branch)

    def _add_feed_forward(self, x: Tensor, branch: Branch) -> Tensor:
        keep = keeps_all(self.options.recompute, x.device)
        return add_feed_forward(x, self.norm2, self.mlp, branch, keep_hidden=keep)

    def forward(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches = (KEPT, KEPT),
    ) -> Tensor:
        """(B, D, H, W, C) -> same shape; arguments as in :class:`WindowAttention`.

        ``branches`` are what stochastic depth leaves of attention and of the feed-forward layer.
        """
        if has_kernels(x):
            return self._uncompiled(x, index, plan, mutual_plan, branches)
        return self._run(x, index, plan, mutual_plan, branches)

    @torch.compiler.disable
    def _uncompiled(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Tensor:
        """A block of our own kernels: there is nothing between them for a compiler to join."""
        return self._run(x, index, plan, mutual_plan, branches)

    def _run(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Tensor:
        options = self.options
        attention, feed_forward = branches
        # A compiled block would be compiled anew for every combination of dropped branches.
        may_skip = not torch.compiler.is_compiling()
        skips_attention = may_skip and attention.is_dropped
        skips_feed_forward = may_skip and feed_forward.is_dropped
        both = options.checkpoint_attn and options.checkpoint_ffn
        joined = both or (joins(x) and not options.checkpoint_attn)
        if joined and not (skips_attention or skips_feed_forward):
            # Both at once keep, if recomputed, the input of the block and not that of each branch.
            return recomputed(both, self._both, x, index, plan, mutual_plan, branches)
        if skips_attention:
            x = skip_branch(x, self.norm1, self.attn)
        else:
            arguments = (x, index, plan, mutual_plan, attention)
            x = recomputed(options.checkpoint_attn, self._add_attention, *arguments)
        if skips_feed_forward:
            return skip_branch(x, self.norm2, self.mlp)
        # The cheap policy and our own kernels keep little but its input of this branch.
        is_small = has_kernels(x) or not keeps_all(options.recompute, x.device)
        again = options.checkpoint_ffn and not is_small
        return recomputed(again, self._add_feed_forward, x, feed_forward)

    def _both(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Tensor:
        if joins(x):
            norms = (self.norm1, self.norm2)
            return self.attn.add_both(x, norms, self.mlp, index, plan, mutual_plan, branches)
        x = self._add_attention(x, index, plan, mutual_plan, branches[0])
        return self._add_feed_forward(x, branches[1])


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
        blocks = [
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
        ]
        self.drop_paths = [block.drop_path for block in blocks]
        self.blocks = nn.ModuleList(blocks)
        # Equal for all blocks and a function of the configuration: kept once, in no checkpoint.
        self.register_buffer("index", relative_position_index(window), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, H, W, C) -> same shape."""
        size = (x.shape[1], x.shape[2], x.shape[3])
        branches = draw_branches(self.drop_paths, x)
        for number, block in enumerate(self.blocks):
            shifted = number % 2 == 1
            geometry = clip_window(size, self.window, shifted=shifted, mutual=False)
            plan = self.plans(geometry, x.device)
            mutual_plan = None
            if self.mutual:
                geometry = clip_window(size, self.window, shifted=shifted, mutual=True)
                mutual_plan = self.plans(geometry, x.device)
            x = block(x, self.index, plan, mutual_plan, branches[number])
        return x
