"""Temporal mutual self attention: the transformer blocks of VRT.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2.
Features are channels-last, (B, D, H, W, C).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from vrtspike.models.attention import WindowAttention, relative_position_index
from vrtspike.models.layers import GEGLU, DropPath, Recomputed
from vrtspike.models.windows import Size3, Windows, windows_of

if TYPE_CHECKING:
    from vrtspike.settings.model import VRTSettings


class TMSABlock(Recomputed):
    """x + attention(LN(x)), then x + GEGLU(LN(x)).

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        drop_path: probability of dropping a residual branch in training.
        settings: heads, width of the feed-forward layer, implementation of attention.
        mutual: add mutual attention.
    """

    def __init__(
        self,
        channels: int,
        window: Size3,
        drop_path: float,
        settings: VRTSettings,
        *,
        mutual: bool,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn = WindowAttention(channels, window, settings, mutual=mutual)
        self.drop_path = DropPath(drop_path)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = GEGLU(channels, int(channels * settings.MLP_RATIO), channels)

    def forward(self, x: Tensor, windows: Windows, index: Tensor) -> Tensor:
        """(B, D, H, W, C) -> same shape; arguments as for :class:`WindowAttention`."""
        x = x + self.drop_path(self.attn(self.norm1(x), windows, index))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class TMSAGroup(nn.Module):
    """Blocks of one window size; every second one has its windows shifted.

    Args:
        channels: feature channels.
        window: full window (Wd, Wh, Ww).
        drop_paths: probabilities of dropping a residual branch, one for each block.
        settings: as for :class:`TMSABlock`.
        mutual: add mutual attention; the window then holds two frames.
    """

    index: Tensor

    def __init__(
        self,
        channels: int,
        window: Size3,
        drop_paths: Sequence[float],
        settings: VRTSettings,
        *,
        mutual: bool,
    ) -> None:
        super().__init__()
        self.window = window
        self.mutual = mutual
        self.blocks = nn.ModuleList(
            TMSABlock(channels, window, rate, settings, mutual=mutual) for rate in drop_paths
        )
        # The value is equal for all blocks and determined by the configuration: kept once, and in
        # no checkpoint.
        self.register_buffer("index", relative_position_index(window), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, H, W, C) -> same shape."""
        for number, block in enumerate(self.blocks):
            shifted = number % 2 == 1
            windows = windows_of(x, self.window, shifted=shifted, mutual=self.mutual)
            x = block(x, windows, self.index)
        return x
