"""Attention along time at each pixel: over spike features, and from RGB to spike features."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.chunking import ChunkPolicy, map_pixels
from vrtspike.deblurring.models.layers import GEGLU, start_at_zero
from vrtspike.deblurring.models.window_attention import attend
from vrtspike.errors import ConfigError

_MLP_RATIO = 2
# The slope of the first head and of the last; those between follow a geometric series.
_STEEPEST, _SHALLOWEST = 4.0, 0.5


class RelativeTime(nn.Module):
    """A learned score for each head and time difference: b_h[d] = c_h[d] - m_h |d|.

    Without it attention along time sees a set of frames, not their order, and a frame cannot know
    which spikes are its own. The fixed slopes m_h (4 to 1/2) make every head begin by looking at
    its own frame and let some look further; the correction c_h is learned, starts at zero, and
    keeps its outermost value beyond ``reach``, where the slope goes on: a clip at test time may be
    longer than those of training.

    Sources: a table of relative positions as in Swin (Liu et al., 2021); slopes for lengths never
    seen in training as in ALiBi (Press et al., 2022).

    Args:
        heads: attention heads.
        reach: largest time difference with a learned value of its own, that of a training clip.
    """

    slopes: Tensor

    def __init__(self, heads: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        ratio = (_SHALLOWEST / _STEEPEST) ** (1 / max(heads - 1, 1))
        slopes = torch.tensor([_STEEPEST * ratio**head for head in range(heads)])
        self.register_buffer("slopes", slopes, persistent=False)
        self.correction = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, frames: int) -> Tensor:
        """The bias of a clip of ``frames`` frames: (heads, queries, keys)."""
        time = torch.arange(frames, device=self.slopes.device)
        difference = time[None, :] - time[:, None]
        learned = self.correction[:, difference.clamp(-self.reach, self.reach) + self.reach]
        return learned - self.slopes[:, None, None] * difference.abs()

    def extra_repr(self) -> str:
        """The sizes, for ``print(model)``."""
        return f"heads={len(self.slopes)}, reach={self.reach}"


def attend_over_time(qkv: Tensor, bias: Tensor | None, heads: int) -> Tensor:
    """Multi-head attention along time at each pixel.

    Args:
        qkv: (B, T, P, 3C), queries, keys and values.
        bias: (heads, T, T), added to the scores of every pixel, or None.
        heads: attention heads; C must be a multiple.

    Returns:
        (B, T, P, C).
    """
    batch, frames, pixels, width = qkv.shape
    split = qkv.view(batch, frames, pixels, 3, heads, width // 3 // heads)
    q, k, v = split.permute(3, 0, 2, 4, 1, 5).flatten(1, 2)  # (B * P, heads, T, C / heads) each
    out = attend(q, k, v, None if bias is None else bias.to(q.dtype))
    return out.unflatten(0, (batch, pixels)).permute(0, 3, 1, 2, 4).flatten(3)


def feed_forward(channels: int) -> nn.Sequential:
    """fc2(GELU(fc1(x))) over channels."""
    hidden = _MLP_RATIO * channels
    return nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))


class _TimeAttention(nn.Module):
    """What attention along time at each pixel has, whatever it looks at.

    Args:
        name: of its section of settings, for errors.
        channels: feature channels.
        heads: attention heads.
        reach: largest time difference with a learned score, see :class:`RelativeTime`; None: no
            scores of time differences.
        chunks: how many pixels to process at once.
        checkpoint: recompute each chunk in the backward pass.
    """

    def __init__(
        self,
        name: str,
        channels: int,
        heads: int,
        reach: int | None,
        chunks: ChunkPolicy,
        checkpoint: bool,
    ) -> None:
        super().__init__()
        if channels % heads:
            raise ConfigError(f"{name}: {channels} channels are no multiple of HEADS, {heads}")
        self.heads = heads
        self.chunks = chunks
        self.checkpoint = checkpoint
        self.time = None if reach is None else RelativeTime(heads, reach)

    def time_bias(self, frames: int) -> Tensor | None:
        """(heads, T, T), added to the scores of every pixel, or None."""
        return None if self.time is None else self.time(frames)

    def attend(self, qkv: Tensor, bias: Tensor | None) -> Tensor:
        """Attention along time, (B, T, P, 3C) -> (B, T, P, C)."""
        return attend_over_time(qkv, bias, self.heads)


class SpikeTemporalSA(_TimeAttention):
    """Self attention along time at each pixel, then a feed-forward layer, both pre-normalised.

    Args:
        channels: feature channels.
        heads: attention heads.
        reach: largest time difference with a learned score, see :class:`RelativeTime`, or None.
        chunks: how many pixels to process at once.
        checkpoint: recompute each chunk in the backward pass.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        reach: int | None,
        chunks: ChunkPolicy,
        *,
        checkpoint: bool = False,
    ) -> None:
        super().__init__("SPIKE_TSA", channels, heads, reach, chunks, checkpoint)
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = feed_forward(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        layer = partial(self._pixels, self.time_bias(x.shape[1]))
        return map_pixels(layer, self.chunks, self.checkpoint, x)

    def _pixels(self, bias: Tensor | None, x: Tensor) -> Tensor:
        x = x + self.proj(self.attend(self.qkv(self.norm1(x)), bias))
        return x + self.mlp(self.norm2(x))


class TemporalCrossAttn(_TimeAttention):
    """Fusion: attention along time at each pixel, from RGB to spike features, and a feed-forward
    layer, both residual.

    Runs of older versions begin with one step more, the direct path: a gated layer over the
    channels of [LN(x_t); e_t], x the features of the frames and e those of the spikes.

    Args:
        channels: feature channels of both inputs.
        heads: attention heads.
        reach: largest time difference with a learned score, see :class:`RelativeTime`, or None.
        chunks: how many pixels to process at once.
        identity: start with output projections of zero, so that the layer returns its input.
        direct: begin with the direct path.
        checkpoint: recompute each chunk in the backward pass.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        reach: int | None,
        chunks: ChunkPolicy,
        *,
        identity: bool,
        direct: bool = False,
        checkpoint: bool = False,
    ) -> None:
        super().__init__("FUSE", channels, heads, reach, chunks, checkpoint)
        self.direct: GEGLU | None = None
        if direct:
            self.norm_direct = nn.LayerNorm(channels)
            self.direct = GEGLU(2 * channels, 2 * channels, channels)
        self.norm_query = nn.LayerNorm(channels)
        self.norm_spikes = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(channels, 2 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = feed_forward(channels)
        if identity:
            for last in (self.proj, self.mlp[-1], *([self.direct.fc2] if self.direct else [])):
                start_at_zero(last)

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
        layer = partial(self._pixels, self.time_bias(x.shape[1]))
        return map_pixels(layer, self.chunks, self.checkpoint, x, spikes)

    def _pixels(self, bias: Tensor | None, x: Tensor, spikes: Tensor) -> Tensor:
        if self.direct is not None:
            normed = self.norm_direct(x)
            x = x + self.direct(torch.cat((normed, spikes.to(normed.dtype)), dim=-1))
        query = self.query(self.norm_query(x))
        key_value = self.key_value(self.norm_spikes(spikes))
        x = x + self.proj(self.attend(torch.cat((query, key_value), dim=-1), bias))
        return x + self.mlp(self.norm2(x))
