"""The stages of VRT: change of scale, two residual groups, parallel warping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.alignment import DeformableAlignment
from vrtspike.deblurring.models.layers import GEGLU, DepthToSpace, Recomputed, SpaceToDepth
from vrtspike.deblurring.models.mixed_precision import residual_stream
from vrtspike.deblurring.models.tmsa import TMSAGroup
from vrtspike.deblurring.models.windows import Size3

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
        aligned = align(x, backward, forward)
        out: Tensor = fuse(torch.cat((x.to(aligned.dtype), aligned), dim=-1))
        return out


class Stage(nn.Module):
    """One of stages 1 to 7.

    Args:
        fan_in: channels of the stage before.
        channels: channels of this stage.
        direction: change of scale at its start.
        heads: attention heads.
        window: full window (Wd, Wh, Ww) of self attention.
        drop_paths: of each transformer block, the probability of dropping a residual branch.
        mutual_ratio: share of the blocks with mutual attention.
        deformable_groups: offset groups of the alignment; 0: the stage has no alignment.
        max_magnitude: bound of the alignment's offsets, in pixels of this scale.
        group: builds a group of blocks, given channels, window, heads, drop paths and ``mutual``.
    """

    def __init__(
        self,
        fan_in: int,
        channels: int,
        *,
        direction: Direction,
        heads: int,
        window: Size3,
        drop_paths: Sequence[float],
        mutual_ratio: float,
        deformable_groups: int,
        max_magnitude: float,
        group: Group,
    ) -> None:
        super().__init__()
        self.reshape = _reshape(fan_in, channels, direction)
        split = int(len(drop_paths) * mutual_ratio)
        own = (2, window[1], window[2])
        self.residual_group1 = group(channels, own, heads, drop_paths[:split], mutual=True)
        self.linear1 = nn.Linear(channels, channels)
        self.residual_group2 = group(channels, window, heads, drop_paths[split:], mutual=False)
        self.linear2 = nn.Linear(channels, channels)
        if deformable_groups:
            self.pa_deform = DeformableAlignment(channels, deformable_groups, max_magnitude)
            self.pa_fuse = GEGLU(3 * channels, 3 * channels, channels)
            self.warping = ParallelWarping()

    def attend(self, x: Tensor) -> Tensor:
        """Change of scale and both residual groups: (B, T, H, W, C') -> (B, T, H', W', C)."""
        x = residual_stream(self.reshape(x))
        x = x + self.linear1(self.residual_group1(x))
        return x + self.linear2(self.residual_group2(x))

    def align(self, x: Tensor, backward: Tensor, forward: Tensor) -> Tensor:
        """Parallel warping; flows as for :class:`DeformableAlignment`."""
        return residual_stream(self.warping(self.pa_deform, self.pa_fuse, x, backward, forward))


class ReconstructionGroup(nn.Module):
    """A group of stage 8: self attention blocks, a linear map, a residual.

    Arguments as for :class:`Stage`.
    """

    def __init__(
        self,
        channels: int,
        *,
        heads: int,
        window: Size3,
        drop_paths: Sequence[float],
        group: Group,
    ) -> None:
        super().__init__()
        self.residual_group = group(channels, window, heads, drop_paths, mutual=False)
        self.linear = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        out: Tensor = x + self.linear(self.residual_group(x))
        return out
