"""The attention of VRT's blocks: self attention in a window, mutual attention between two frames.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C), from the first to the last line of this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.layers import GEGLU, KEPT, BlockBranches, Branch
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.recomputation import Recompute, keeps_all
from vrtspike.deblurring.models.token_ops import (
    Layout,
    has_kernels,
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
from vrtspike.deblurring.models.windows import Size3, WindowPlan, sine_position_bias
from vrtspike.errors import ConfigError

_TABLE_STD = 0.02

Pair = tuple[Tensor, Tensor]
"""What a layer makes of the residual stream, and the stream itself, for what goes around it: own
kernels add the gradient of that to the layer's."""


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

    @property
    def checkpoint_all(self) -> bool:
        """Recompute all that takes much memory: both, spike encoder and optical flow too."""
        return self.checkpoint_attn and self.checkpoint_ffn

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
    ) -> Pair:
        """Features plus attention of the normalised features.

        Args:
            x: (B, D, H, W, C), not yet normalised.
            norm: the layer norm before attention.
            index: (N, N) relative position index of the full window.
            plan: windows of self attention.
            mutual_plan: windows of mutual attention.
            branch: what stochastic depth leaves of attention.

        Returns:
            The sum (B, D, H, W, C), and ``x`` for a residual around several blocks.
        """
        if has_kernels(x):
            return self._by_own_kernels(x, norm, index, plan, mutual_plan, branch)
        qkv = self._project_in(self.qkv_self, x, norm, plan, coded=False)
        out = self._attend(qkv, plan, self._relative_bias(index, plan.tokens))
        if mutual_plan is None:
            return x + branch.scaled(self.proj(out)), x
        qkv = self._project_in(self.qkv_mut, x, norm, mutual_plan, coded=True)
        return x + branch.scaled(self._project(self._attend(qkv, mutual_plan, None), out)), x

    def _by_own_kernels(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branch: Branch,
    ) -> Pair:
        """What :meth:`forward` gives, with norm, padding, codes and residual inside of kernels."""
        streams, own, mutual, maps = self._attended(x, norm, index, plan, mutual_plan, branch)
        x = triton_output(streams[0], self.proj, own, mutual, maps, branch.factors)
        return x, streams[1]

    def add_both(
        self,
        x: Tensor,
        norms: tuple[nn.LayerNorm, nn.LayerNorm],
        mlp: GEGLU,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branches: BlockBranches,
    ) -> Pair:
        """:meth:`forward`, then the feed-forward layer, by own kernels that join the two."""
        attention, fed = branches
        streams, own, mutual, maps = self._attended(
            x, norms[0], index, plan, mutual_plan, attention
        )
        factors = attention.factors, fed.factors
        x = triton_joined(streams[0], self.proj, own, mutual, maps, norms[1], mlp, *factors)
        return x, streams[1]

    def _attended(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        index: Tensor,
        plan: WindowPlan,
        mutual_plan: WindowPlan | None,
        branch: Branch,
    ) -> tuple[Pair, Tensor, Tensor | None, Layout]:
        """The features twice, both results of attention on padded maps, and how these lie."""
        maps = layout(plan.geometry, None if mutual_plan is None else mutual_plan.geometry)
        places = None if mutual_plan is None else self._places(mutual_plan).flatten(0, 1)
        second = None if mutual_plan is None else self.qkv_mut
        name, factors = self.options.attention, branch.factors
        # Other implementations go over all samples, so these have to hold numbers.
        keep = factors if leaves_out(name, x.device, autocast_dtype(x)) else None
        streams, own, mutual = triton_projections(
            x, norm, self.qkv_self, second, places, maps, keep
        )
        bias = self._relative_bias(index, plan.tokens)
        out = window_attention(own, bias, plan, self.heads, name, keep)
        other = None
        if mutual_plan is not None:
            other = window_attention(mutual, None, mutual_plan, self.heads, name, keep)
        return streams, out, other, maps

    def _project(self, mutual: Tensor, own: Tensor) -> Tensor:
        """``proj`` of [mutual, own] on the channels, without the copy that joins them."""
        channels = own.shape[-1]
        first = functional.linear(own, self.proj.weight[:, channels:], self.proj.bias)
        rows = mutual.reshape(-1, channels)
        both = torch.addmm(first.view_as(rows), rows, self.proj.weight[:, :channels].t())
        return both.view(own.shape)
