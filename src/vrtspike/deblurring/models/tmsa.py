"""Temporal mutual self attention: the transformer blocks of VRT.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C).
"""

from __future__ import annotations

from torch import Tensor, nn

from vrtspike.deblurring.models.attention import (
    WindowAttention,
    Windows,
    relative_position_index,
)
from vrtspike.deblurring.models.layers import ResidualGEGLU
from vrtspike.deblurring.models.ops.dispatch import Compute
from vrtspike.deblurring.models.ops.projections import add_linear
from vrtspike.deblurring.models.ops.recomputation import Recomputed
from vrtspike.deblurring.models.ops.window_attention.windows import PlanCache, Size3, clip_window
from vrtspike.deblurring.models.stochastic_depth import with_kept_samples


class TMSABlock(Recomputed):
    """x + attention(LN(x)), then x + GEGLU(LN(x)).

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        heads: attention heads.
        mutual: add mutual attention.
        mlp_ratio: hidden width of the feed-forward layer over ``channels``.
        compute: how operations are computed.
    """

    def __init__(
        self,
        channels: int,
        window: Size3,
        heads: int,
        *,
        mutual: bool,
        mlp_ratio: float,
        compute: Compute,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn = WindowAttention(channels, window, heads, mutual=mutual, compute=compute)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = ResidualGEGLU(channels, int(channels * mlp_ratio), compute=compute)

    def forward(self, x: Tensor, windows: Windows, keep: Tensor | None = None) -> Tensor:
        """(B, D, H, W, C) -> same shape.

        ``keep`` are the factors of both residual branches, (2, B) float32, by which stochastic
        depth drops them; None: 1 for all.
        """
        keep_attention, keep_mlp = (None, None) if keep is None else keep
        x = with_kept_samples(self.attn, x, self.norm1, windows, keep=keep_attention)
        return with_kept_samples(self.mlp, x, self.norm2, keep=keep_mlp)


class TMSAGroup(nn.Module):
    """Blocks of one window size; every second one has its windows shifted.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        heads: attention heads.
        blocks: how many.
        mutual: add mutual attention; the window then holds two frames.
        mlp_ratio: hidden width of the feed-forward layers over ``channels``.
        compute: how operations are computed.
        plans: the window plans of the model.
    """

    index: Tensor

    def __init__(
        self,
        channels: int,
        window: Size3,
        heads: int,
        blocks: int,
        *,
        mutual: bool,
        mlp_ratio: float,
        compute: Compute,
        plans: PlanCache,
    ) -> None:
        super().__init__()
        self.window = window
        self.mutual = mutual
        self.compute = compute
        self.plans = plans
        self.blocks = nn.ModuleList(
            TMSABlock(channels, window, heads, mutual=mutual, mlp_ratio=mlp_ratio, compute=compute)
            for _ in range(blocks)
        )
        # Equal for all blocks and a function of the configuration: kept once, in no checkpoint.
        self.register_buffer("index", relative_position_index(window), persistent=False)

    def windows(self, x: Tensor, *, shifted: bool) -> Windows:
        """The windows on a map (B, D, H, W, C)."""
        size = (x.shape[1], x.shape[2], x.shape[3])
        plans = [
            self.plans(clip_window(size, self.window, shifted=shifted, mutual=mutual), x.device)
            for mutual in ([False, True] if self.mutual else [False])
        ]
        return Windows(plans[0], plans[1] if self.mutual else None, self.index)

    def forward(self, x: Tensor, linear: nn.Linear, keep: Tensor | None = None) -> Tensor:
        """x + linear(blocks(x)), (B, D, H, W, C) -> same shape; ``keep`` as of all blocks."""
        out = x
        for number, block in enumerate(self.blocks):
            windows = self.windows(x, shifted=number % 2 == 1)
            out = block(out, windows, None if keep is None else keep[number])
        return add_linear(x, linear, out, self.compute)
