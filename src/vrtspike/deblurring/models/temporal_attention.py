"""Attention along time at each pixel: over spike features, and from RGB to spike features."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.chunking import ChunkPolicy, map_pixels
from vrtspike.deblurring.models.layers import GEGLU, FeedForward, start_at_zero
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.norms import normalised
from vrtspike.deblurring.models.relative_time import RelativeTime
from vrtspike.deblurring.models.token_ops import (
    add_linear_and_feed_forward,
    gated,
    project_normalised,
)
from vrtspike.deblurring.models.window_attention import window_attention
from vrtspike.deblurring.models.windows import PlanCache, clip_window
from vrtspike.errors import ConfigError

_MLP_RATIO = 2
# PyTorch's kernels give each attention problem a row of the CUDA grid, which has 65535 of them.
_OF_PYTORCH = ("flex", "fused")
_MOST_PROBLEMS = 65535


def attend_over_time(
    qkv: Tensor, bias: Tensor, plans: PlanCache, implementation: str = "auto"
) -> Tensor:
    """Multi-head attention along time at each pixel: window attention in windows of one pixel.

    Args:
        qkv: (B, T, P, 3C), queries, keys and values.
        bias: (heads, T, T), added to the scores of every pixel; C must be a multiple of the heads.
        plans: the plans of the model.
        implementation: a name of ``window_attention``.

    Returns:
        (B, T, P, C).
    """
    batch, _, pixels = qkv.shape[:3]
    if implementation not in _OF_PYTORCH or batch * pixels <= _MOST_PROBLEMS:
        return _attend(qkv, bias, plans, implementation)
    parts = qkv.tensor_split(math.ceil(pixels / max(_MOST_PROBLEMS // batch, 1)), dim=2)
    return torch.cat([_attend(part, bias, plans, implementation) for part in parts], dim=2)


def _attend(qkv: Tensor, bias: Tensor, plans: PlanCache, implementation: str) -> Tensor:
    frames, pixels = qkv.shape[1:3]
    size, window = (frames, pixels, 1), (frames, 1, 1)
    plan = plans(clip_window(size, window, shifted=False, mutual=False), qkv.device)
    out = window_attention(qkv.flatten(1, 2), bias, plan, len(bias), implementation)
    return out.unflatten(1, (frames, pixels))


def _check_heads(name: str, channels: int, heads: int) -> None:
    if channels % heads:
        raise ConfigError(f"{name}: {channels} channels are no multiple of HEADS, {heads}")


class SpikeTemporalSA(nn.Module):
    """Self attention along time at each pixel, then a feed-forward layer, both pre-normalised.

    Args:
        channels: feature channels.
        heads: attention heads.
        reach: largest time difference with a learned score, see :class:`RelativeTime`.
        chunks: how many pixels to process at once.
        checkpoint: recompute each chunk in the backward pass.
        implementation: of the attention (a name of ``window_attention``).
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        reach: int,
        chunks: ChunkPolicy,
        *,
        checkpoint: bool = False,
        implementation: str = "auto",
    ) -> None:
        super().__init__()
        _check_heads("SPIKE_TSA", channels, heads)
        self.chunks = chunks
        self.checkpoint = checkpoint
        self.implementation = implementation
        self.plans = PlanCache()
        self.time = RelativeTime(heads, reach)
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = FeedForward(channels, _MLP_RATIO * channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        layer = partial(self._pixels, self.time(x.shape[1]))
        return map_pixels(layer, self.chunks, self.checkpoint, x)

    def _pixels(self, bias: Tensor, x: Tensor) -> Tensor:
        x, qkv = project_normalised(x, self.norm1, self.qkv)
        attended = attend_over_time(qkv, bias, self.plans, self.implementation)
        return add_linear_and_feed_forward(x, self.proj, attended, self.norm2, self.mlp)


class TemporalCrossAttn(nn.Module):
    """Fusion: every RGB feature meets the spikes of its own frame, then those of the whole clip.

    Three residual steps at each pixel, x the features of the frames and e those of the spikes:

    1. the direct path, a gated layer over the channels of [LN(x_t); e_t]. The spikes are not
       normalised there, because a norm throws away their amplitude, which is brightness;
    2. attention along time, from x to e, biased by the distance in time (:class:`RelativeTime`);
    3. a feed-forward layer.

    Args:
        channels: feature channels of both inputs.
        heads: attention heads.
        reach: largest time difference with a learned score, see :class:`RelativeTime`.
        chunks: how many pixels to process at once.
        identity: start with output projections of zero, so that the layer returns its input.
        checkpoint: recompute each chunk in the backward pass.
        implementation: of the attention (a name of ``window_attention``).
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        reach: int,
        chunks: ChunkPolicy,
        *,
        identity: bool,
        checkpoint: bool = False,
        implementation: str = "auto",
    ) -> None:
        super().__init__()
        _check_heads("FUSE", channels, heads)
        self.chunks = chunks
        self.checkpoint = checkpoint
        self.implementation = implementation
        self.plans = PlanCache()
        self.time = RelativeTime(heads, reach)
        self.norm_direct = nn.LayerNorm(channels)
        self.direct = GEGLU(2 * channels, 2 * channels, channels)
        self.norm_query = nn.LayerNorm(channels)
        self.norm_spikes = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(channels, 2 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = FeedForward(channels, _MLP_RATIO * channels)
        if identity:
            start_at_zero(self.direct.fc2)
            start_at_zero(self.proj)
            start_at_zero(self.mlp[-1])

    def forward(self, x: Tensor, spikes: Tensor) -> Tensor:
        """Fuse.

        Args:
            x: (B, T, H, W, C) output of a VRT stage.
            spikes: (B, T, H, W, C) spike features of the same scale.

        Returns:
            (B, T, H, W, C).

        Raises:
            ValueError: the spike features have another shape, such as fewer frames.
        """
        if x.shape != spikes.shape:
            raise ValueError(
                f"expected spike features of shape {tuple(x.shape)}, got {tuple(spikes.shape)}"
            )
        layer = partial(self._pixels, self.time(x.shape[1]))
        return map_pixels(layer, self.chunks, self.checkpoint, x, spikes)

    def _pixels(self, bias: Tensor, x: Tensor, spikes: Tensor) -> Tensor:
        spikes, key_value = project_normalised(spikes, self.norm_spikes, self.key_value)
        # In the type of the products, or each of them would make a copy of its own.
        x, both = normalised(x, self.norm_direct, autocast_dtype(x), spikes)
        x = x + gated(both, self.direct, keep_hidden=True)
        x, query = project_normalised(x, self.norm_query, self.query)
        qkv = torch.cat((query, key_value), dim=-1)
        attended = attend_over_time(qkv, bias, self.plans, self.implementation)
        return add_linear_and_feed_forward(x, self.proj, attended, self.norm2, self.mlp)
