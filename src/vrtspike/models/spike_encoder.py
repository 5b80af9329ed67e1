"""Spike encoder: a three-dimensional convolutional pyramid over voxel grids.

The bins of a pixel are nearly equal: their mean is its brightness, and the differences hold the
motion. The encoder gets the mean and each bin's deviation from it, so that the first layer need not
learn to subtract large, equal numbers; ``docs/experiments.md`` has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.models.layers import Conv3dAs2d, RecomputedModule, pad_to_multiple

_STRIDE = 2
_BLOCKS_PER_SCALE = 2


class ResidualClipBlock(nn.Module):
    """relu(x + conv(relu(conv(x)))) with 3 x 3 x 3 convolutions.

    Args:
        channels: feature channels.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = Conv3dAs2d(channels, channels)
        self.conv2 = Conv3dAs2d(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        return functional.relu(x + self.conv2(functional.relu(self.conv1(x))))


class SpikeEncoder(RecomputedModule):
    """Features of a voxel grid at scales 1, 1/2, 1/4, 1/8.

    Args:
        bins: voxel bins per frame, the channels of the input.
        channels: channels of each scale.
    """

    def __init__(self, bins: int, channels: Sequence[int]) -> None:
        super().__init__()
        self.stem = Conv3dAs2d(1 + bins, channels[0])
        self.downs = nn.ModuleList(Conv3dAs2d(*pair, _STRIDE) for pair in pairwise(channels))
        self.scales = nn.ModuleList(
            nn.Sequential(*(ResidualClipBlock(width) for _ in range(_BLOCKS_PER_SCALE)))
            for width in channels
        )

    def forward(self, voxels: Tensor) -> list[Tensor]:
        """Encode voxel grids.

        Args:
            voxels: (B, T, K, H, W), standardised.

        Returns:
            Per scale s: (B, T, H' / s, W' / s, C), H' and W' padded by reflection to multiples of
            the coarsest scale's factor, as VRT pads its frames.
        """
        padded = pad_to_multiple(voxels, _STRIDE ** (len(self.scales) - 1))
        bins = padded.permute(0, 1, 3, 4, 2)
        mean = bins.mean(dim=-1, keepdim=True)
        x = functional.relu(self.stem(torch.cat((mean, bins - mean), dim=-1)))
        outputs = [self.scales[0](x)]
        for down, blocks in zip(self.downs, self.scales[1:], strict=True):
            outputs.append(blocks(down(outputs[-1])))
        return outputs
