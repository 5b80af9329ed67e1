"""The stages of VRT: change of scale, two groups of transformer blocks, parallel warping.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer", section 3.2. Features are
channels-last, (B, D, H, W, C).

Modules with numbers, here and in its layers (``linear1``, ``norm2``), are named as in the published
weights. Indices of stages are counted from 0: index 0 is the published ``stage1``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vrtspike.deblurring_settings.model import ModelSettings, VRTSettings
from vrtspike.models.attention import WindowAttention, relative_position_index
from vrtspike.models.layers import GEGLU, DepthToSpace, DropPath, RecomputedModule, SpaceToDepth
from vrtspike.models.mixed_precision import residual_stream
from vrtspike.models.parallel_warping import DeformableAlignment
from vrtspike.models.windows import Size3, WindowPartition, windows_of

STAGE_LEVELS = (0, 1, 2, 3, 2, 1, 0)
"""Log2 of the downsampling of each of stages 1 to 7."""
_MAX_OFFSET = 10.0
"""Bound of the alignment's offsets in pixels of the frame."""


class TMSABlock(RecomputedModule):
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

    def forward(self, x: Tensor, windows: WindowPartition, index: Tensor) -> Tensor:
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
        for index, block in enumerate(self.blocks):
            shifted = index % 2 == 1
            windows = windows_of(x, self.window, shifted=shifted, mutual=self.mutual)
            x = block(x, windows, self.index)
        return x


def _reshape(in_channels: int, channels: int, change: int) -> nn.Sequential:
    """Change of scale; the layers have their places in the published weights.

    Args:
        in_channels: channels of the input.
        channels: channels of the output.
        change: 1 for half the size, -1 for twice the size, 0 for the same.
    """
    if change == 0:
        return nn.Sequential(nn.Identity(), nn.LayerNorm(channels))
    if change > 0:
        width = 4 * in_channels
        return nn.Sequential(SpaceToDepth(), nn.LayerNorm(width), nn.Linear(width, channels))
    width = in_channels // 4
    return nn.Sequential(DepthToSpace(), nn.LayerNorm(width), nn.Linear(width, channels))


class ParallelWarping(RecomputedModule):
    """Features of a frame fused with those of its aligned neighbours.

    The parameters belong to the stage, as in the published weights.
    """

    def forward(self, align: DeformableAlignment, fuse: GEGLU, x: Tensor, flows: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape; flows as for :class:`DeformableAlignment`."""
        aligned = align(x, flows)
        return fuse(torch.cat((x.to(aligned.dtype), aligned), dim=-1))


class Stage(nn.Module):
    """A stage before the reconstruction groups of stage 8.

    Args:
        index: from 0 to 6.
        settings: settings of the model.
        drop_paths: probabilities of dropping a residual branch, one for each transformer block.
    """

    def __init__(self, index: int, settings: ModelSettings, drop_paths: Sequence[float]) -> None:
        super().__init__()
        vrt = settings.VRT
        window = settings.window
        channels = vrt.EMBED_DIMS[index]
        self.scale = STAGE_LEVELS[index]
        previous = max(index - 1, 0)
        change = self.scale - STAGE_LEVELS[previous]
        self.reshape = _reshape(vrt.EMBED_DIMS[previous], channels, change)
        split = int(len(drop_paths) * vrt.MUL_ATTN_RATIO)
        pair = (2, window[1], window[2])
        self.residual_group1 = TMSAGroup(channels, pair, drop_paths[:split], vrt, mutual=True)
        self.linear1 = nn.Linear(channels, channels)
        self.residual_group2 = TMSAGroup(channels, window, drop_paths[split:], vrt, mutual=False)
        self.linear2 = nn.Linear(channels, channels)
        if vrt.PA_FRAMES:
            bound = _MAX_OFFSET / 2**self.scale
            self.pa_deform = DeformableAlignment(channels, vrt.DEFORMABLE_GROUPS, bound)
            self.pa_fuse = GEGLU(3 * channels, 3 * channels, channels)
            self.warping = ParallelWarping()

    def attend(self, x: Tensor) -> Tensor:
        """Change of scale and both residual groups: (B, T, H, W, C') -> (B, T, H', W', C)."""
        x = residual_stream(self.reshape(x))
        x = x + self.linear1(self.residual_group1(x))
        return x + self.linear2(self.residual_group2(x))

    def align(self, x: Tensor, flows: Tensor) -> Tensor:
        """Parallel warping; flows as for :class:`DeformableAlignment`."""
        return residual_stream(self.warping(self.pa_deform, self.pa_fuse, x, flows))


class ReconstructionGroup(nn.Module):
    """A group of stage 8: self attention blocks, a linear map, a residual.

    Arguments as for :class:`Stage`; the indices of the groups continue those of the stages.
    """

    def __init__(self, index: int, settings: ModelSettings, drop_paths: Sequence[float]) -> None:
        super().__init__()
        channels = settings.VRT.EMBED_DIMS[index]
        frames, height, width = settings.window
        if index in settings.VRT.INDEP_RECONSTS:
            frames = 1
        window = (frames, height, width)
        self.residual_group = TMSAGroup(channels, window, drop_paths, settings.VRT, mutual=False)
        self.linear = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        return x + self.linear(self.residual_group(x))
