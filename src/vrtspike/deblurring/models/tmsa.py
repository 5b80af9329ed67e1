"""Temporal mutual self attention: the transformer blocks of VRT.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C), from the first to the last line of this file.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.attention import BlockOptions, Pair, WindowAttention
from vrtspike.deblurring.models.layers import (
    GEGLU,
    KEPT,
    BlockBranches,
    Branch,
    DropPath,
    draw_branches,
    skip_branch,
)
from vrtspike.deblurring.models.recomputation import keeps_all, recomputed
from vrtspike.deblurring.models.token_ops import add_feed_forward, add_linear, has_kernels, joins
from vrtspike.deblurring.models.windows import (
    PlanCache,
    Size3,
    WindowPlan,
    clip_window,
    relative_position_index,
)


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
    ) -> Pair:
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
        *,
        hands_on: bool = False,
    ) -> Tensor | Pair:
        """(B, D, H, W, C) -> same shape; arguments as in :class:`WindowAttention`.

        ``branches`` are what stochastic depth leaves of attention and of the feed-forward layer.
        A block that ``hands_on`` also gives ``x``, for a residual around several blocks.
        """
        run = self._uncompiled if has_kernels(x) else self._run
        both = run(x, index, plan, mutual_plan, branches)
        return both if hands_on else both[0]

    @torch.compiler.disable
    def _uncompiled(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Pair:
        """A block of our own kernels: there is nothing between them for a compiler to join."""
        return self._run(x, index, plan, mutual_plan, branches)

    def _run(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Pair:
        options = self.options
        attention, feed_forward = branches
        # A compiled block would be compiled anew for every combination of dropped branches.
        may_skip = not torch.compiler.is_compiling()
        skips_attention = may_skip and attention.is_dropped
        skips_feed_forward = may_skip and feed_forward.is_dropped
        both = options.checkpoint_all
        together = both or (joins(x) and not options.checkpoint_attn)
        if together and not (skips_attention or skips_feed_forward):
            # Both at once keep, if recomputed, the input of the block and not that of each branch.
            return recomputed(both, self._both, x, index, plan, mutual_plan, branches)
        stream = x
        if skips_attention:
            x = skip_branch(x, self.norm1, self.attn)
        else:
            arguments = (x, index, plan, mutual_plan, attention)
            x, stream = recomputed(options.checkpoint_attn, self._add_attention, *arguments)
        if skips_feed_forward:
            return skip_branch(x, self.norm2, self.mlp), stream
        # The cheap policy and our own kernels keep little but its input of this branch.
        is_small = has_kernels(x) or not keeps_all(options.recompute, x.device)
        again = options.checkpoint_ffn and not is_small
        return recomputed(again, self._add_feed_forward, x, feed_forward), stream

    def _both(
        self,
        x: Tensor,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Pair:
        if joins(x):
            norms = (self.norm1, self.norm2)
            return self.attn.add_both(x, norms, self.mlp, index, plan, mutual_plan, branches)
        x, stream = self._add_attention(x, index, plan, mutual_plan, branches[0])
        return self._add_feed_forward(x, branches[1]), stream


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

    def forward(self, x: Tensor, layer: nn.Linear | None = None) -> Tensor:
        """(B, D, H, W, C) -> same shape; with a layer ``x`` plus that of what the blocks make."""
        size = (x.shape[1], x.shape[2], x.shape[3])
        branches = draw_branches(self.drop_paths, x)
        stream, hands_on = x, layer is not None and has_kernels(x)
        for number, block in enumerate(self.blocks):
            shifted = number % 2 == 1
            geometry = clip_window(size, self.window, shifted=shifted, mutual=False)
            plan = self.plans(geometry, x.device)
            mutual_plan = None
            if self.mutual:
                geometry = clip_window(size, self.window, shifted=shifted, mutual=True)
                mutual_plan = self.plans(geometry, x.device)
            arguments = (x, self.index, plan, mutual_plan, branches[number])
            if number == 0 and hands_on:
                x, stream = block(*arguments, hands_on=True)
            else:
                x = block(*arguments)
        return x if layer is None else add_linear(stream, layer, x)
