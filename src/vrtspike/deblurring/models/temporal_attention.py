"""Attention along time at each pixel: over spike features, and from RGB to spike features."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.layers import GEGLU, recomputed, start_at_zero
from vrtspike.deblurring.models.window_attention import attend

if TYPE_CHECKING:
    from vrtspike.deblurring.settings.model import FuseSettings, TemporalAttentionSettings

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


def chunk_count(
    settings: TemporalAttentionSettings, tokens: int, pixels: int, *, keeps: bool
) -> int:
    """In how many chunks pixels are processed, each chunk at once; it changes no result.

    Args:
        settings: which bound the tokens, or the pixels, of a chunk.
        tokens: batch x frames x pixels.
        pixels: of a frame.
        keeps: whether all results are kept for the backward pass anyway, so that adaptive chunks
            would only cost time.
    """
    if not settings.ADAPTIVE_CHUNK:
        return math.ceil(pixels / settings.CHUNK_SIZE**2)
    return 1 if keeps else min(math.ceil(tokens / settings.MAX_BATCH_TOKENS), pixels)


class _TimeAttention(nn.Module):
    """What attention along time at each pixel has, whatever it looks at.

    Args:
        channels: feature channels.
        settings: heads, scores of time differences, chunks.
        reach: largest time difference with a learned score, see :class:`RelativeTime`.
        checkpoint: recompute each chunk in the backward pass.
    """

    def __init__(
        self, channels: int, settings: TemporalAttentionSettings, reach: int, checkpoint: bool
    ) -> None:
        super().__init__()
        self.heads = settings.HEADS
        self.settings = settings
        self.checkpoint = checkpoint
        self.time = RelativeTime(settings.HEADS, reach) if settings.TIME_BIAS else None

    def map_pixels(self, layer: Callable[..., Tensor], x: Tensor, *others: Tensor) -> Tensor:
        """Apply ``layer`` to all pixels, some at a time where that saves memory.

        Args:
            layer: takes scores of time differences (heads, T, T), or None, and (B, T, P, C)
                tensors; returns such a tensor and treats each of the P pixels alone.
            x: (B, T, H, W, C).
            others: further arguments of the same size.

        Returns:
            (B, T, H, W, C).
        """
        batch, frames, height, width = x.shape[:4]
        pixels = height * width
        bias = None if self.time is None else self.time(frames)
        layer = partial(recomputed, self.checkpoint, layer, bias)
        keeps = torch.is_grad_enabled() and not self.checkpoint
        count = chunk_count(self.settings, batch * frames * pixels, pixels, keeps=keeps)
        flat = [tensor.flatten(2, 3) for tensor in (x, *others)]
        if count == 1:
            # A slice of all pixels would copy its gradient.
            return layer(*flat).unflatten(2, (height, width))
        pieces = zip(*(tensor.tensor_split(count, dim=2) for tensor in flat), strict=True)
        return torch.cat([layer(*piece) for piece in pieces], dim=2).unflatten(2, (height, width))


class SpikeTemporalSA(_TimeAttention):
    """Self attention along time at each pixel, then a feed-forward layer, both pre-normalised.

    Arguments as for :class:`_TimeAttention`.
    """

    def __init__(
        self,
        channels: int,
        settings: TemporalAttentionSettings,
        reach: int,
        *,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(channels, settings, reach, checkpoint)
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = feed_forward(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        return self.map_pixels(self._pixels, x)

    def _pixels(self, bias: Tensor | None, x: Tensor) -> Tensor:
        x = x + self.proj(attend_over_time(self.qkv(self.norm1(x)), bias, self.heads))
        return x + self.mlp(self.norm2(x))


class TemporalCrossAttn(_TimeAttention):
    """Fusion: attention along time at each pixel, from RGB to spike features, and a feed-forward
    layer, both residual.

    Runs of older versions begin with one step more, the direct path: a gated layer over the
    channels of [LN(x_t); e_t], x the features of the frames and e those of the spikes.

    With ``INIT: identity`` output projections start at zero, so that the layer returns its input.
    Arguments as for :class:`_TimeAttention`, channels those of both inputs.
    """

    def __init__(
        self, channels: int, settings: FuseSettings, reach: int, *, checkpoint: bool = False
    ) -> None:
        super().__init__(channels, settings, reach, checkpoint)
        self.direct: GEGLU | None = None
        if settings.DIRECT:
            self.norm_direct = nn.LayerNorm(channels)
            self.direct = GEGLU(2 * channels, 2 * channels, channels)
        self.norm_query = nn.LayerNorm(channels)
        self.norm_spikes = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(channels, 2 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = feed_forward(channels)
        if settings.INIT == "identity":
            for last in (self.proj, self.mlp[-1], *([self.direct.fc2] if self.direct else [])):
                start_at_zero(last)

    def forward(self, x: Tensor, spikes: Tensor) -> Tensor:
        """Fuse.

        Args:
            x: (B, T, H, W, C) output of a VRT stage.
            spikes: (B, T, H, W, C) spike features of the same scale.

        Returns:
            (B, T, H, W, C).
        """
        return self.map_pixels(self._pixels, x, spikes)

    def _pixels(self, bias: Tensor | None, x: Tensor, spikes: Tensor) -> Tensor:
        if self.direct is not None:
            normed = self.norm_direct(x)
            x = x + self.direct(torch.cat((normed, spikes.to(normed.dtype)), dim=-1))
        query = self.query(self.norm_query(x))
        qkv = torch.cat((query, self.key_value(self.norm_spikes(spikes))), dim=-1)
        x = x + self.proj(attend_over_time(qkv, bias, self.heads))
        return x + self.mlp(self.norm2(x))
