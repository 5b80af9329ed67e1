"""The attention of VRT's blocks: self attention in a window, mutual attention between two frames.

Sources: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2; shifted windows of
Swin (Liu et al., 2021) in three dimensions. Features are channels-last, (B, D, H, W, C).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from vrtspike.deblurring_settings.model import VRTSettings
from vrtspike.models.layers import RecomputedModule
from vrtspike.models.mixed_precision import autocast_dtype
from vrtspike.models.recomputed_attention import recomputed_attention
from vrtspike.models.windows import Size3, WindowPartition

_TABLE_STD = 0.02
KERNELS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Kernels that PyTorch may use. The memory-efficient one computes the gradient of a bias. The one
of cuDNN, PyTorch's first choice on Hopper, gave NaN for windows of 64 tokens with a mask (pytorch
issue 196678)."""
_HEAD_MULTIPLE = 8
"""Factor of the width of heads that the memory-efficient kernel takes in half precision."""
MAX_BATCH = 65535
"""Maximum entries of a batch: the kernel gives each a row of the CUDA grid."""
MAX_SCORES = 1 << 29
"""Maximum scores of a call: the gradient of a bias is as large before it is summed, one GiB."""


class WindowAttention(RecomputedModule):
    """Self attention in a window and, with ``mutual``, mutual attention between its two frames.

    ``ATTENTION`` selects the implementation: ``sdpa`` is PyTorch's scaled_dot_product_attention,
    which keeps all scores on a CPU if the bias is learned; ``recompute`` computes the scores of a
    few windows at a time, and again for the gradient; ``auto`` takes ``recompute`` on a CPU if the
    bias is learned, else ``sdpa``.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww); mutual attention needs Wd = 2.
        settings: the heads, and the implementation of attention.
        mutual: add mutual attention.
    """

    position_bias: Tensor

    def __init__(
        self, channels: int, window: Size3, settings: VRTSettings, *, mutual: bool
    ) -> None:
        super().__init__()
        self.window = window
        self.heads = settings.NUM_HEADS
        self.mutual = mutual
        self.attention = settings.ATTENTION
        rows = math.prod(2 * length - 1 for length in window)
        self.relative_position_bias_table = nn.Parameter(torch.empty(rows, self.heads))
        nn.init.normal_(self.relative_position_bias_table, std=_TABLE_STD)
        self.qkv_self = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(2 * channels if mutual else channels, channels)
        if mutual:
            self.qkv_mut = nn.Linear(channels, 3 * channels)
            # Checkpoints leave this out, because the configuration determines it.
            bias = sine_position_bias(window[1], window[2], channels)
            self.register_buffer("position_bias", bias, persistent=False)

    def forward(self, x: Tensor, windows: WindowPartition, index: Tensor) -> Tensor:
        """Attention in the windows of a map.

        Args:
            x: (B, D, H, W, C).
            windows: windows of the map.
            index: (N, N), row of the relative position bias table for each pair of tokens of a
                full window. A clipped window uses the leading corner.

        Returns:
            (B, D, H, W, C).
        """
        tokens = windows.partition(x.to(autocast_dtype(x)))  # operands of products
        corner = index[: tokens.shape[2], : tokens.shape[2]]
        rows = self.relative_position_bias_table.index_select(0, corner.flatten())
        bias = rows.view(*corner.shape, self.heads).permute(2, 0, 1)
        q, k, v = self._split(self.qkv_self(tokens).flatten(0, 1))
        out = self._attend(windows, bias, q, k, v).view_as(tokens)
        if self.mutual:
            out = torch.cat((self._mutual(tokens, windows), out), dim=-1)
        return windows.merge(self.proj(out))

    def _mutual(self, tokens: Tensor, windows: WindowPartition) -> Tensor:
        """Mutual attention, (n, B, N, C) -> same shape.

        Queries of the second frame attend to the first frame and fill the first half, and vice
        versa.
        """
        _, height, width = windows.window
        position = self.position_bias.view(*self.window[1:], -1)[:height, :width].flatten(0, 1)
        frames = tokens.unflatten(2, (2, -1)) + position.to(tokens.dtype)
        qkv = self.qkv_mut(frames).flatten(0, 1)  # (n * B, 2, N / 2, 3C)
        q, k, v = self._split(qkv.flatten(0, 1))
        other_q = q.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
        return self._attend(windows, None, other_q, k, v).view_as(tokens)

    def _split(self, qkv: Tensor) -> tuple[Tensor, ...]:
        """(batch, N, 3C) -> queries, keys, values, (batch, heads, N, C / heads) each."""
        parts = qkv.unflatten(2, (3, self.heads, -1)).unbind(2)
        return tuple(part.transpose(1, 2) for part in parts)

    def _attend(
        self, windows: WindowPartition, bias: Tensor | None, q: Tensor, k: Tensor, v: Tensor
    ) -> Tensor:
        """softmax(q k^T / sqrt(channels of a head) + bias + mask) v, (batch, N, C).

        Args:
            windows: n windows, with their masks.
            bias: (heads, N, N), or None.
            q, k, v: (batch, heads, N, C / heads); the entries of a window, as many of each, are
                neighbours. N are all tokens of a window or those of one of its frames.
        """
        tokens = q.shape[2]
        masks = windows.masks[:, :tokens, :tokens]
        entries_per_window = len(q) // sum(windows.counts)
        counts = [count * entries_per_window for count in windows.counts]
        is_learned_on_cpu = bias is not None and bias.requires_grad and not q.is_cuda
        recompute = self.attention == "recompute"
        if self.attention == "auto":
            recompute = is_learned_on_cpu
        implementation = recomputed_attention if recompute else masked_attention
        return implementation(q, k, v, masks, counts, bias).transpose(1, 2).flatten(2)


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, masks: Tensor, counts: Sequence[int], bias: Tensor | None
) -> Tensor:
    """softmax(q k^T / sqrt(c) + bias + mask) v by ``scaled_dot_product_attention``.

    Args:
        q, k, v: (batch, heads, N, c).
        masks: (g, N, N); the first one is zero.
        counts: number of successive entries of the batch with each mask.
        bias: (heads, N, N), or None.

    Returns:
        (batch, heads, N, c).
    """
    if bias is not None:
        bias = bias.contiguous().to(q.dtype)[None]
    if len(counts) == 1:
        return attend(q, k, v, bias)
    pairs = zip(masks.to(q.dtype), counts, strict=True)
    batch_masks = [mask.expand(count, 1, -1, -1) for mask, count in pairs]
    if bias is None:
        return attend(q, k, v, torch.cat(batch_masks))
    # Sums of bias and mask take as much memory as all scores: only entries that need a mask,
    # those of windows at borders, get one.
    border_bias = bias + torch.cat(batch_masks[1:])
    free = counts[0]
    if not free:
        return attend(q, k, v, border_bias)
    sizes = [free, len(q) - free]
    free_q, border_q = q.split(sizes)
    free_k, border_k = k.split(sizes)
    free_v, border_v = v.split(sizes)
    inside = attend(free_q, free_k, free_v, bias)
    border = attend(border_q, border_k, border_v, border_bias)
    return torch.cat((inside, border))


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """``scaled_dot_product_attention`` within the limits of its CUDA kernels.

    Args:
        q, k, v: (batch, heads, N, c).
        bias: (batch or 1, heads or 1, N, N), added to the scores, or None. If its memory is not
            contiguous, PyTorch selects no kernel and keeps all scores.

    Returns:
        (batch, heads, N, c).
    """
    _, heads, tokens, width = q.shape
    spare = -width % _HEAD_MULTIPLE if q.is_cuda else 0
    if spare:
        q = functional.pad(q, (0, spare))
        k = functional.pad(k, (0, spare))
        v = functional.pad(v, (0, spare))
    step = min(max(MAX_SCORES // (heads * tokens**2), 1), MAX_BATCH)
    queries = _pieces(q, step)
    biases: Sequence[Tensor | None] = [bias] * len(queries)
    if bias is not None and len(bias) > 1:
        biases = _pieces(bias, step)
    pieces = zip(queries, _pieces(k, step), _pieces(v, step), biases, strict=True)
    with sdpa_kernel(KERNELS) if q.is_cuda else nullcontext():
        results = [
            functional.scaled_dot_product_attention(
                some_q, some_k, some_v, attn_mask=mask, scale=width**-0.5
            )
            for some_q, some_k, some_v, mask in pieces
        ]
    out = results[0] if len(results) == 1 else torch.cat(results)
    return out[..., :width]


def _pieces(x: Tensor, step: int) -> Sequence[Tensor]:
    """Split a batch into pieces; a single piece is not split, which would copy its gradient."""
    return (x,) if len(x) <= step else x.split(step)


def relative_position_index(window: Size3) -> Tensor:
    """Row of the relative position bias table for every pair of tokens of a window.

    Returns:
        (N, N) int64 with N = Wd * Wh * Ww and values in [0, (2Wd-1)(2Wh-1)(2Ww-1)).
    """
    coordinates = torch.cartesian_prod(*[torch.arange(length) for length in window])  # (N, 3)
    relative = coordinates[:, None] - coordinates + torch.tensor(window) - 1
    height = 2 * window[1] - 1
    width = 2 * window[2] - 1
    return (relative[..., 0] * height + relative[..., 1]) * width + relative[..., 2]


def sine_position_bias(height: int, width: int, channels: int) -> Tensor:
    """Two-dimensional sine position encoding, normalised to 2 pi, y before x.

    Source: the encoding of DETR (Carion et al., 2020), which VRT adds to the tokens before mutual
    attention.

    Args:
        height: rows of the window.
        width: columns of the window.
        channels: a multiple of 4: sine and cosine, of rows and of columns.

    Returns:
        (1, height * width, channels) float32.
    """
    half = channels // 2
    # The published encoding normalises by the last coordinate plus this epsilon.
    epsilon = 1e-6
    exponent = 2 * torch.div(torch.arange(half), 2, rounding_mode="floor") / half
    period = 10000.0 ** exponent.to(torch.float32)

    def encode(length: int) -> Tensor:
        position = torch.arange(1, length + 1, dtype=torch.float32) / (length + epsilon)
        angle = (position * (2 * math.pi))[:, None] / period
        return torch.stack((angle[:, 0::2].sin(), angle[:, 1::2].cos()), dim=2).flatten(1)

    rows = encode(height).repeat_interleave(width, dim=0)
    columns = encode(width).repeat(height, 1)
    return torch.cat((rows, columns), dim=1)[None]
