"""Temporal mutual self attention: the transformer blocks of VRT.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from vrtspike.deblurring.models.attention import (
    WindowAttention,
    Windows,
    relative_position_index,
)
from vrtspike.deblurring.models.layers import GEGLU, DropPath, Recomputed
from vrtspike.deblurring.models.windows import PlanCache, Size3, clip_window


class TMSABlock(Recomputed):
    """x + attention(LN(x)), then x + GEGLU(LN(x)).

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        heads: attention heads.
        mutual: add mutual attention.
        mlp_ratio: hidden width of the feed-forward layer over ``channels``.
        drop_path: probability of dropping a residual branch in training.
        attention: how window attention is computed.
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
        attention: str,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn = WindowAttention(channels, window, heads, mutual=mutual, attention=attention)
        self.drop_path = DropPath(drop_path)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = GEGLU(channels, int(channels * mlp_ratio), channels)

    def forward(self, x: Tensor, windows: Windows) -> Tensor:
        """(B, D, H, W, C) -> same shape."""
        x = x + self.drop_path(self.attn(self.norm1(x), windows))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class TMSAGroup(nn.Module):
    """Blocks of one window size; every second one has its windows shifted.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        heads: attention heads.
        drop_paths: of each block, the probability of dropping a residual branch.
        mutual: add mutual attention; the window then holds two frames.
        mlp_ratio: hidden width of the feed-forward layers over ``channels``.
        attention: how window attention is computed.
        plans: the window plans of the model.
    """

    index: Tensor

    def __init__(
        self,
        channels: int,
        window: Size3,
        heads: int,
        drop_paths: Sequence[float],
        *,
        mutual: bool,
        mlp_ratio: float,
        attention: str,
        plans: PlanCache,
    ) -> None:
        super().__init__()
        self.window = window
        self.mutual = mutual
        self.plans = plans
        self.blocks = nn.ModuleList(
            TMSABlock(
                channels,
                window,
                heads,
                mutual=mutual,
                mlp_ratio=mlp_ratio,
                drop_path=rate,
                attention=attention,
            )
            for rate in drop_paths
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

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, H, W, C) -> same shape."""
        for number, block in enumerate(self.blocks):
            x = block(x, self.windows(x, shifted=number % 2 == 1))
        return x
