"""Attention along time at each pixel: over spike features, and from RGB to spike features."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from vrtspike.errors import ConfigError
from vrtspike.models.chunking import ChunkPolicy, map_pixels
from vrtspike.models.layers import start_at_zero
from vrtspike.models.recomputation import recomputed

_MLP_RATIO = 2


def attend_over_time(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """Multi-head attention along time at each pixel.

    Args:
        q: (B, T, P, C) queries.
        k: (B, S, P, C) keys.
        v: (B, S, P, C) values.
        heads: attention heads; C must be a multiple.

    Returns:
        (B, T, P, C).
    """

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (heads, -1)).permute(0, 2, 3, 1, 4)  # (B, P, heads, T, c)

    q, k, v = split(q), split(k), split(v)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    out = scores.softmax(dim=-1).to(v.dtype) @ v
    return out.permute(0, 3, 1, 2, 4).flatten(3)


class _FeedForward(nn.Sequential):
    """C -> 2C -> C with GELU."""

    def __init__(self, channels: int) -> None:
        hidden = _MLP_RATIO * channels
        super().__init__(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))


def _check_heads(name: str, channels: int, heads: int) -> None:
    if channels % heads:
        raise ConfigError(f"{name}: {channels} channels are no multiple of HEADS, {heads}")


class SpikeTemporalSA(nn.Module):
    """Self attention along time at each pixel, then a feed-forward layer, both pre-normalised.

    Args:
        channels: feature channels.
        heads: attention heads.
        chunks: how many pixels to process at once.
        checkpoint: recompute each chunk in the backward pass.
    """

    def __init__(
        self, channels: int, heads: int, chunks: ChunkPolicy, *, checkpoint: bool = False
    ) -> None:
        super().__init__()
        _check_heads("SPIKE_TSA", channels, heads)
        self.heads = heads
        self.chunks = chunks
        self.checkpoint = checkpoint
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = _FeedForward(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        return map_pixels(partial(recomputed, self.checkpoint, self._pixels), self.chunks, x)

    def _pixels(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.proj(attend_over_time(q, k, v, self.heads))
        return x + self.mlp(self.norm2(x))


class TemporalCrossAttn(nn.Module):
    """Fusion: RGB features look at the spike features of their pixel along time.

    Args:
        channels: feature channels of both inputs.
        heads: attention heads.
        chunks: how many pixels to process at once.
        identity: start with output projections of zero, so that the layer returns its input.
        checkpoint: recompute each chunk in the backward pass.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        chunks: ChunkPolicy,
        *,
        identity: bool,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        _check_heads("FUSE", channels, heads)
        self.heads = heads
        self.chunks = chunks
        self.checkpoint = checkpoint
        self.norm_query = nn.LayerNorm(channels)
        self.norm_spikes = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(channels, 2 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = _FeedForward(channels)
        if identity:
            start_at_zero(self.proj)
            start_at_zero(self.mlp[-1])

    def forward(self, x: Tensor, spikes: Tensor) -> Tensor:
        """Fuse.

        Args:
            x: (B, T, H, W, C) output of a VRT stage.
            spikes: (B, T, H, W, C) spike features of the same scale.

        Returns:
            (B, T, H, W, C).
        """
        layer = partial(recomputed, self.checkpoint, self._pixels)
        return map_pixels(layer, self.chunks, x, spikes)

    def _pixels(self, x: Tensor, spikes: Tensor) -> Tensor:
        q = self.query(self.norm_query(x))
        k, v = self.key_value(self.norm_spikes(spikes)).chunk(2, dim=-1)
        x = x + self.proj(attend_over_time(q, k, v, self.heads))
        return x + self.mlp(self.norm2(x))
