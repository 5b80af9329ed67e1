"""The stages of VRT: change of scale, two residual groups, parallel warping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.attention import BlockOptions
from vrtspike.deblurring.models.feature_alignment import DeformableAlignment, align_neighbours
from vrtspike.deblurring.models.layers import GEGLU, DepthToSpace, SpaceToDepth
from vrtspike.deblurring.models.mixed_precision import autocast_dtype, residual_stream
from vrtspike.deblurring.models.norms import normalised
from vrtspike.deblurring.models.recomputation import keeps_all, recomputed
from vrtspike.deblurring.models.tmsa import TMSAGroup
from vrtspike.deblurring.models.token_ops import (
    gated,
    has_kernels,
    project_normalised,
)
from vrtspike.deblurring.models.windows import PlanCache, Size3

Direction = Literal["none", "down", "up"]


def _reshape(fan_in: int, channels: int, direction: Direction) -> nn.Sequential:
    """Change of scale; the layers' places in the sequence are those of the published weights."""
    if direction == "none":
        return nn.Sequential(nn.Identity(), nn.LayerNorm(channels))
    move, width = (
        (SpaceToDepth(), 4 * fan_in) if direction == "down" else (DepthToSpace(), fan_in // 4)
    )
    return nn.Sequential(move, nn.LayerNorm(width), nn.Linear(width, channels))


def move_and_project(layers: nn.Sequential, x: Tensor) -> Tensor:
    """``layers(x)``: a change of scale, a layer norm and maybe a linear layer, (B, T, H, W, C)."""
    move, norm, *rest = layers
    assert isinstance(norm, nn.LayerNorm)
    if isinstance(move, SpaceToDepth):
        return rest[0](normalised(x, norm, autocast_dtype(x), folded=True)[1])
    x = move(x)
    if rest:
        return linear_of_norm(x, norm, rest[0])
    # The start of the residual stream.
    exact = torch.promote_types(x.dtype, torch.float32)
    return normalised(x, norm, exact if torch.is_autocast_enabled(x.device.type) else x.dtype)[1]


def linear_of_norm(x: Tensor, norm: nn.Module, layer: nn.Module) -> Tensor:
    """``layer(norm(x))`` of (B, T, H, W, C), in one pass where there are kernels for it."""
    assert isinstance(norm, nn.LayerNorm)
    assert isinstance(layer, nn.Linear)
    if not has_kernels(x):
        return layer(norm(x))
    return project_normalised(x.flatten(2, 3), norm, layer)[1].unflatten(2, x.shape[2:4])


class Stage(nn.Module):
    """One of stages 1 to 7.

    Args:
        fan_in: channels of the stage before.
        channels: channels of this stage.
        direction: change of scale at its start.
        heads: attention heads.
        window: full window (Wd, Wh, Ww) of self attention.
        drop_path: stochastic depth of each block; its length is the number of blocks.
        mutual_ratio: share of the blocks with mutual attention.
        mlp_ratio: hidden width of the feed-forward layers over ``channels``.
        deformable_groups: offset groups of the alignment; 0: the stage has no alignment.
        max_magnitude: bound of the alignment's offsets, in pixels of this scale.
        options: how to compute.
        plans: the plans of the model.
    """

    def __init__(
        self,
        fan_in: int,
        channels: int,
        *,
        direction: Direction,
        heads: int,
        window: Size3,
        drop_path: Sequence[float],
        mutual_ratio: float,
        mlp_ratio: float,
        deformable_groups: int,
        max_magnitude: float,
        options: BlockOptions,
        plans: PlanCache,
    ) -> None:
        super().__init__()
        self.options = options
        self.reshape = _reshape(fan_in, channels, direction)
        split = int(len(drop_path) * mutual_ratio)

        def group(size: Size3, rates: Sequence[float], mutual: bool) -> TMSAGroup:
            return TMSAGroup(
                channels,
                size,
                heads,
                mutual=mutual,
                mlp_ratio=mlp_ratio,
                drop_path=rates,
                options=options,
                plans=plans,
            )

        self.residual_group1 = group((2, window[1], window[2]), drop_path[:split], True)
        self.linear1 = nn.Linear(channels, channels)
        self.residual_group2 = group(window, drop_path[split:], False)
        self.linear2 = nn.Linear(channels, channels)
        if deformable_groups:
            self.pa_deform = DeformableAlignment(channels, deformable_groups, max_magnitude)
            self.pa_fuse = GEGLU(3 * channels, 3 * channels, channels)

    def attend(self, x: Tensor) -> Tensor:
        """Change of scale and both residual groups: (B, T, H, W, C') -> (B, T, H', W', C)."""
        x = residual_stream(move_and_project(self.reshape, x))
        x = self.residual_group1(x, self.linear1)
        out: Tensor = self.residual_group2(x, self.linear2)
        return out

    def align(self, x: Tensor, backward: Tensor, forward: Tensor) -> Tensor:
        """Parallel warping; flows as in :func:`align_neighbours`."""
        attn, ffn = self.options.checkpoint_attn, self.options.checkpoint_ffn
        if attn:
            # What is computed again keeps its input, here at half the stream's bytes.
            x = x.to(autocast_dtype(x))

        def warp(x: Tensor, backward: Tensor, forward: Tensor) -> tuple[Tensor, Tensor]:
            return align_neighbours(self.pa_deform, x, backward, forward)

        def warp_and_fuse(x: Tensor, backward: Tensor, forward: Tensor) -> Tensor:
            return self._fuse(*warp(x, backward, forward))

        if self.options.checkpoint_all:
            return residual_stream(recomputed(True, warp_and_fuse, x, backward, forward))
        features, aligned = recomputed(attn, warp, x, backward, forward)
        return residual_stream(recomputed(ffn, self._fuse, features, aligned))

    def _fuse(self, x: Tensor, aligned: Tensor) -> Tensor:
        """Features of a frame and of its aligned neighbours, into one."""
        whole = torch.cat((x, aligned), dim=-1)
        return gated(whole, self.pa_fuse, keep_hidden=keeps_all(self.options.recompute, x.device))


class ReconstructionGroup(nn.Module):
    """A group of stage 8: self attention blocks, a linear map, a residual."""

    def __init__(
        self,
        channels: int,
        *,
        heads: int,
        window: Size3,
        drop_path: Sequence[float],
        mlp_ratio: float,
        options: BlockOptions,
        plans: PlanCache,
    ) -> None:
        super().__init__()
        self.residual_group = TMSAGroup(
            channels,
            window,
            heads,
            mutual=False,
            mlp_ratio=mlp_ratio,
            drop_path=drop_path,
            options=options,
            plans=plans,
        )
        self.linear = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        out: Tensor = self.residual_group(x, self.linear)
        return out
