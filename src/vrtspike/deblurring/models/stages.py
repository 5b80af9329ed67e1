"""The stages of VRT: change of scale, two residual groups, parallel warping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.alignment import DeformableAlignment
from vrtspike.deblurring.models.layers import GEGLU, DepthToSpace, SpaceToDepth
from vrtspike.deblurring.models.mixed_precision import autocast_dtype, residual_stream
from vrtspike.deblurring.models.ops.dispatch import Compute
from vrtspike.deblurring.models.ops.recomputation import Recomputed
from vrtspike.deblurring.models.ops.window_attention.windows import Size3
from vrtspike.deblurring.models.tmsa import TMSAGroup

Direction = Literal["none", "down", "up"]
Group = Callable[..., TMSAGroup]


def _reshape(fan_in: int, channels: int, direction: Direction) -> nn.Sequential:
    """Change of scale; the layers' places in the sequence are those of the published weights."""
    if direction == "none":
        return nn.Sequential(nn.Identity(), nn.LayerNorm(channels))
    move, width = (
        (SpaceToDepth(), 4 * fan_in) if direction == "down" else (DepthToSpace(), fan_in // 4)
    )
    return nn.Sequential(move, nn.LayerNorm(width), nn.Linear(width, channels))


class ParallelWarping(Recomputed):
    """Features of a frame fused with those of its aligned neighbours.

    Its parameters are those of the stage, where the published weights have them.
    """

    def forward(
        self,
        align: DeformableAlignment,
        fuse: GEGLU,
        x: Tensor,
        backward: Tensor,
        forward: Tensor,
    ) -> Tensor:
        """(B, T, H, W, C) -> same shape; flows as for :class:`DeformableAlignment`."""
        # Nothing adds up in here: features are operands of products.
        x = x.to(autocast_dtype(x))
        aligned = align(x, backward, forward)
        return residual_stream(fuse(torch.cat((x, aligned), dim=-1)))


class Stage(nn.Module):
    """One of stages 1 to 7.

    Args:
        fan_in: channels of the stage before.
        channels: channels of this stage.
        direction: change of scale at its start.
        heads: attention heads.
        window: full window (Wd, Wh, Ww) of self attention.
        blocks: transformer blocks.
        mutual_ratio: share of the blocks with mutual attention.
        deformable_groups: offset groups of the alignment; 0: the stage has no alignment.
        max_magnitude: bound of the alignment's offsets, in pixels of this scale.
        compute: how operations are computed.
        group: builds a group of blocks, given channels, window, heads, blocks and ``mutual``.
    """

    def __init__(
        self,
        fan_in: int,
        channels: int,
        *,
        direction: Direction,
        heads: int,
        window: Size3,
        blocks: int,
        mutual_ratio: float,
        deformable_groups: int,
        max_magnitude: float,
        compute: Compute,
        group: Group,
    ) -> None:
        super().__init__()
        self.reshape = _reshape(fan_in, channels, direction)
        self.split = int(blocks * mutual_ratio)
        own = (2, window[1], window[2])
        self.residual_group1 = group(channels, own, heads, self.split, mutual=True)
        self.linear1 = nn.Linear(channels, channels)
        self.residual_group2 = group(channels, window, heads, blocks - self.split, mutual=False)
        self.linear2 = nn.Linear(channels, channels)
        if deformable_groups:
            self.pa_deform = DeformableAlignment(
                channels, deformable_groups, max_magnitude, compute
            )
            self.pa_fuse = GEGLU(3 * channels, 3 * channels, channels, compute=compute)
            self.warping = ParallelWarping()

    def attend(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Change of scale and both residual groups: (B, T, H, W, C') -> (B, T, H', W', C).

        ``keep`` are the factors of the blocks' branches, see :class:`TMSABlock`.
        """
        first, second = (None, None) if keep is None else keep.tensor_split([self.split])
        x = residual_stream(self.reshape(x))
        x = self.residual_group1(x, self.linear1, first)
        out: Tensor = self.residual_group2(x, self.linear2, second)
        return out

    def align(self, x: Tensor, backward: Tensor, forward: Tensor) -> Tensor:
        """Parallel warping; flows as for :class:`DeformableAlignment`."""
        out: Tensor = self.warping(self.pa_deform, self.pa_fuse, x, backward, forward)
        return out


class ReconstructionGroup(nn.Module):
    """A group of stage 8: self attention blocks, a linear map, a residual.

    Arguments as for :class:`Stage`.
    """

    def __init__(
        self, channels: int, *, heads: int, window: Size3, blocks: int, group: Group
    ) -> None:
        super().__init__()
        self.residual_group = group(channels, window, heads, blocks, mutual=False)
        self.linear = nn.Linear(channels, channels)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        out: Tensor = self.residual_group(x, self.linear, keep)
        return out
