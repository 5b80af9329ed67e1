"""Attention along time at each pixel: over spike features, and from RGB to spike features."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vrtspike.deblurring_settings.model import FuseSettings, TemporalAttentionSettings
from vrtspike.models.attention import attend
from vrtspike.models.layers import recomputed, zero_init
from vrtspike.system.rounding import ceil_div

_MLP_RATIO = 2


def attend_over_time(qkv: Tensor, heads: int) -> Tensor:
    """Multi-head attention along time at each pixel.

    Args:
        qkv: (B, T, P, 3C), queries, keys and values.
        heads: attention heads; C must be a multiple.

    Returns:
        (B, T, P, C).
    """
    batch, frames, pixels, width = qkv.shape
    split = qkv.view(batch, frames, pixels, 3, heads, width // 3 // heads)
    q, k, v = split.permute(3, 0, 2, 4, 1, 5).flatten(1, 2)  # (B * P, heads, T, C / heads) each
    return attend(q, k, v).unflatten(0, (batch, pixels)).permute(0, 3, 1, 2, 4).flatten(3)


def feed_forward(channels: int) -> nn.Sequential:
    """fc2(GELU(fc1(x))) over channels."""
    hidden = _MLP_RATIO * channels
    return nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))


def chunk_count(
    settings: TemporalAttentionSettings, tokens: int, pixels: int, *, keeps: bool
) -> int:
    """Return the number of chunks of pixels that are processed one after the other.

    It changes no result.

    Args:
        settings: maximum tokens, or pixels, of a chunk.
        tokens: batch x frames x pixels.
        pixels: number of pixels of a frame.
        keeps: all results are kept for the backward pass, so that adaptive chunks would only cost
            time.
    """
    if not settings.ADAPTIVE_CHUNK:
        return ceil_div(pixels, settings.CHUNK_SIZE**2)
    if keeps:
        return 1
    return min(ceil_div(tokens, settings.MAX_BATCH_TOKENS), pixels)


class _TimeAttention(nn.Module):
    """Base of attention along time at each pixel.

    Args:
        settings: heads, chunks.
        recompute: compute each chunk again in the backward pass.
    """

    def __init__(self, settings: TemporalAttentionSettings, recompute: bool) -> None:
        super().__init__()
        self.heads = settings.HEADS
        self.settings = settings
        self.recompute = recompute

    def map_pixels(self, layer: Callable[..., Tensor], x: Tensor, *others: Tensor) -> Tensor:
        """Apply ``layer`` to all pixels, in chunks if that saves memory.

        Args:
            layer: takes (B, T, P, C) tensors, returns one, and treats each of the P pixels alone.
            x: (B, T, H, W, C).
            others: further arguments of the same size.

        Returns:
            (B, T, H, W, C).
        """
        batch, frames, height, width = x.shape[:4]
        pixels = height * width
        keeps = torch.is_grad_enabled() and not self.recompute
        count = chunk_count(self.settings, batch * frames * pixels, pixels, keeps=keeps)
        flat = [tensor.flatten(2, 3) for tensor in (x, *others)]
        # A slice of all pixels would copy its gradient.
        split = [(t,) if count == 1 else t.tensor_split(count, dim=2) for t in flat]
        pieces = zip(*split, strict=True)
        results = [recomputed(self.recompute, layer, *piece) for piece in pieces]
        return torch.cat(results, dim=2).unflatten(2, (height, width))


class TemporalSelfAttention(_TimeAttention):
    """Self attention along time at each pixel, then a feed-forward layer, both pre-normalised.

    Arguments as for :class:`_TimeAttention`, and the number of feature channels.
    """

    def __init__(
        self, channels: int, settings: TemporalAttentionSettings, *, recompute: bool = False
    ) -> None:
        super().__init__(settings, recompute)
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = feed_forward(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        return self.map_pixels(self._pixels, x)

    def _pixels(self, x: Tensor) -> Tensor:
        x = x + self.proj(attend_over_time(self.qkv(self.norm1(x)), self.heads))
        return x + self.mlp(self.norm2(x))


class TemporalCrossAttention(_TimeAttention):
    """Fusion: attention along time at each pixel, from RGB to spike features.

    A feed-forward layer follows; both are residual.
    With ``INIT: identity`` output projections start at zero, so that the layer returns its input.
    Arguments as for :class:`TemporalSelfAttention`, channels those of both inputs.
    """

    def __init__(self, channels: int, settings: FuseSettings, *, recompute: bool = False) -> None:
        super().__init__(settings, recompute)
        self.norm_query = nn.LayerNorm(channels)
        self.norm_spikes = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(channels, 2 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = feed_forward(channels)
        if settings.INIT == "identity":
            for last in (self.proj, self.mlp[-1]):
                zero_init(last)

    def forward(self, x: Tensor, spikes: Tensor) -> Tensor:
        """Fuse.

        Args:
            x: (B, T, H, W, C) output of a VRT stage.
            spikes: (B, T, H, W, C) spike features of the same scale.

        Returns:
            (B, T, H, W, C).
        """
        return self.map_pixels(self._pixels, x, spikes)

    def _pixels(self, x: Tensor, spikes: Tensor) -> Tensor:
        query = self.query(self.norm_query(x))
        qkv = torch.cat((query, self.key_value(self.norm_spikes(spikes))), dim=-1)
        x = x + self.proj(attend_over_time(qkv, self.heads))
        return x + self.mlp(self.norm2(x))
