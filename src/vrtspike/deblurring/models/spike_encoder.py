"""Spike encoder: a three-dimensional convolutional pyramid over voxel grids.

The bins of a pixel are nearly equal, their mean is its brightness; motion is in the differences.
The encoder sees the mean and each bin's deviation from it, so that the first layer need not learn
to subtract large, equal numbers; ``docs/model.md`` has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.layers import ClipConv, pad_to_multiple
from vrtspike.deblurring.models.recomputation import Recomputed
from vrtspike.errors import ConfigError

_SPACE_STRIDE = 2
_BLOCKS_PER_SCALE = 2


def _contrast(voxels: Tensor) -> Tensor:
    """Mean over the bins, and each bin's deviation from it: (..., K) -> (..., 1 + K)."""
    mean = voxels.mean(dim=-1, keepdim=True)
    return torch.cat((mean, voxels - mean), dim=-1)


class ResidualBlock3D(nn.Module):
    """relu(x + conv(relu(conv(x)))) with 3 x 3 x 3 convolutions.

    Args:
        channels: feature channels.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = ClipConv(channels, channels)
        self.conv2 = ClipConv(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, C) -> same shape."""
        return functional.relu(x + self.conv2(functional.relu(self.conv1(x))))


class SpikeEncoder3D(Recomputed):
    """Features of a voxel grid at scales 1, 1/2, 1/4, 1/8.

    Args:
        bins: voxel bins per frame, the channels of the input.
        channels: channels of each scale.
        temporal_strides: stride along time of each step down; 1 keeps every frame.
    """

    def __init__(
        self, bins: int, channels: Sequence[int], temporal_strides: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        self.temporal_strides = tuple(temporal_strides or (1,) * (len(channels) - 1))
        if len(self.temporal_strides) != len(channels) - 1:
            raise ConfigError(
                f"{len(self.temporal_strides)} temporal strides for {len(channels)} scales; "
                f"give {len(channels) - 1}, one for each step down"
            )
        self.stem = ClipConv(1 + bins, channels[0])
        self.downs = nn.ModuleList(
            ClipConv(channels[i], channels[i + 1], stride, _SPACE_STRIDE)
            for i, stride in enumerate(self.temporal_strides)
        )
        self.scales = nn.ModuleList(
            nn.Sequential(*(ResidualBlock3D(width) for _ in range(_BLOCKS_PER_SCALE)))
            for width in channels
        )

    def frames_at_scales(self, frames: int) -> list[int]:
        """Length in time of each scale for a clip of ``frames`` frames."""
        lengths = [frames]
        for stride in self.temporal_strides:
            lengths.append((lengths[-1] - 1) // stride + 1)
        return lengths

    def forward(self, voxels: Tensor) -> list[Tensor]:
        """Encode voxel grids.

        Args:
            voxels: (B, T, K, H, W), standardised.

        Returns:
            Per scale s: (B, T, H' / s, W' / s, C), H' and W' padded by reflection to multiples of
            the coarsest scale's factor, as VRT pads its frames.
        """
        padded = pad_to_multiple(voxels, _SPACE_STRIDE ** (len(self.scales) - 1))
        x = functional.relu(self.stem(_contrast(padded.permute(0, 1, 3, 4, 2))))
        outputs = []
        for number, blocks in enumerate(self.scales):
            if number:
                x = self.downs[number - 1](x)
            x = blocks(x)
            outputs.append(x)
        return outputs


def check_time_lengths(encoder: SpikeEncoder3D, frames: int) -> None:
    """Refuse an encoder whose scales have fewer frames than VRT's, which keeps all of them.

    Raises:
        ConfigError: the lengths differ at some scale.
    """
    lengths = encoder.frames_at_scales(frames)
    if any(length != frames for length in lengths):
        raise ConfigError(
            f"the spike encoder's scales have {lengths} frames for a clip of {frames}; VRT has "
            f"{frames} at every scale, so its temporal strides "
            f"{list(encoder.temporal_strides)} must all be 1"
        )
