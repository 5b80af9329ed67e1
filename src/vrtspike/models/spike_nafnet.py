"""SpikeNAFNet: a light model, a U-Net of NAF blocks with the spikes fused at each scale.

Frames are restored one by one, each with its own spikes and those just before and after its
exposure. Blocks are those of Chen et al., "Simple Baselines for Image Restoration" (ECCV 2022): no
activation functions, but products of the two halves of the channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.data.clips.neighbors import pad_with_means
from vrtspike.deblurring_settings.model import ModelSettings
from vrtspike.models.channel_attention import ChannelAttention
from vrtspike.models.layers import zero_init
from vrtspike.models.restorer import Restorer, require_neighbors
from vrtspike.models.spike_scales import features_of_scales, scale_of_sensor, side_at
from vrtspike.system.rounding import round_up


def simple_gate(x: Tensor) -> Tensor:
    """SimpleGate, the product of the two halves of the channels: (N, 2 C, ...) -> (N, C, ...)."""
    first, second = x.chunk(2, dim=1)
    return first * second


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of each pixel, (N, C, H, W) -> same shape and type."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the channels of each pixel, then apply the learned scale and shift."""
        features = x.movedim(1, -1)
        if self.weight.dtype == torch.float32:
            return super().forward(features).movedim(-1, 1)
        # With half-precision weights, autocast on CUDA would promote the features to float32 and
        # double their memory. Statistics are always computed in float32.
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(features).movedim(-1, 1)


class NAFBlock(nn.Module):
    """Convolution with simplified channel attention, then a feed-forward layer, both residual.

    The two residuals start at zero, so that an untrained block returns its input.

    Args:
        channels: feature channels.
        cell: cell of :class:`ChannelAttention`.
    """

    def __init__(self, channels: int, cell: int = 0) -> None:
        super().__init__()
        self.norm1 = LayerNorm2d(channels, eps=1e-6)
        self.expand = nn.Conv2d(channels, 2 * channels, 1)
        self.depthwise = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, groups=2 * channels)
        self.attention = ChannelAttention(channels, cell)
        self.project = nn.Conv2d(channels, channels, 1)
        self.norm2 = LayerNorm2d(channels, eps=1e-6)
        self.widen = nn.Conv2d(channels, 2 * channels, 1)
        self.narrow = nn.Conv2d(channels, channels, 1)
        self.scale1 = nn.Parameter(torch.zeros(channels, 1, 1))
        self.scale2 = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> same shape."""
        y = simple_gate(self.depthwise(self.expand(self.norm1(x))))
        x = x + self.scale1 * self.project(self.attention(y))
        return x + self.scale2 * self.narrow(simple_gate(self.widen(self.norm2(x))))


def nafnet_blocks(channels: int, count: int, cell: int) -> nn.Sequential:
    """Return NAF blocks one after the other."""
    return nn.Sequential(*(NAFBlock(channels, cell) for _ in range(count)))


def downsample(channels: int, out_channels: int) -> nn.Conv2d:
    """Return a layer that halves H and W: (N, C, H, W) -> (N, out_channels, H / 2, W / 2)."""
    return nn.Conv2d(channels, out_channels, 2, stride=2)


def upsample(channels: int) -> nn.Sequential:
    """Return layers that double H and W: (N, C, H, W) -> (N, C / 2, 2 H, 2 W)."""
    return nn.Sequential(nn.Conv2d(channels, 2 * channels, 1, bias=False), nn.PixelShuffle(2))


def detail_upsample(channels: int) -> nn.Sequential:
    """Return layers that double H and W: (N, C, H, W) -> (N, C, 2 H, 2 W); zeros if untrained."""
    enlarge = nn.Conv2d(channels, 4 * channels, 1)
    zero_init(enlarge)
    return nn.Sequential(enlarge, nn.PixelShuffle(2))


def pad_end(x: Tensor, height: int, width: int) -> Tensor:
    """Pad the ends of the last two axes to a size by repeating the last row and column.

    The result has its channels last in memory, as layer norms need them: no later layer has to copy
    its features, which takes 30 % less time.
    """
    rows = height - x.shape[-2]
    columns = width - x.shape[-1]
    repeated = functional.pad(x, (0, columns, 0, rows), mode="replicate")
    return repeated.contiguous(memory_format=torch.channels_last)


def mean_and_deviations(clip: Tensor, neighbor_bins: int) -> Tensor:
    """Return the input of the first spike layer for each frame.

    The input is the mean over a frame's bins, the brightness; each bin's deviation from it, the
    motion; and the deviations of the bins next to the exposure, the last ones of the frame before
    and the first ones of the frame after.

    Args:
        clip: (B, T + 2, K, h, w), the voxels of T frames, of the frame before and the one after.
        neighbor_bins: n, of each of the two neighbours, at most K.

    Returns:
        (B, T, 1 + K + 2 n, h, w).
    """
    voxels = clip[:, 1:-1]
    mean = voxels.mean(dim=2, keepdim=True)
    before = clip[:, :-2, clip.shape[2] - neighbor_bins :]
    after = clip[:, 2:, :neighbor_bins]
    return torch.cat((mean, voxels - mean, before - mean, after - mean), dim=2)


class SpikePyramid(nn.Module):
    """Features of spikes at the sensor's resolution and at halves of it.

    Args:
        in_channels: channels of :func:`mean_and_deviations`.
        channels: channels of the features, the same at each level.
        levels: resolutions.
        finest_blocks: NAF blocks of the finest level; the other levels have one.
        cell: cell of their channel attention, in pixels of the sensor.
    """

    def __init__(
        self, in_channels: int, channels: int, levels: int, finest_blocks: int, cell: int
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, channels, 3, padding=1)
        # The name is a part of the keys of saved weights.
        self.further = nafnet_blocks(channels, finest_blocks - 1, cell)
        self.downs = nn.ModuleList(downsample(channels, channels) for _ in range(levels - 1))
        self.blocks = nn.ModuleList(
            NAFBlock(channels, side_at(cell, level)) for level in range(levels)
        )

    @property
    def multiple(self) -> int:
        """The number that height and width of the spikes have to be multiples of."""
        return 2 ** len(self.downs)

    def forward(self, spikes: Tensor) -> list[Tensor]:
        """(N, in_channels, h, w) -> per level l (N, C, h / 2**l, w / 2**l), the finest first."""
        levels = [self.further(self.blocks[0](self.stem(spikes)))]
        for down, block in zip(self.downs, self.blocks[1:], strict=True):
            levels.append(block(down(levels[-1])))
        return levels


class SpikeNAFNet(Restorer):
    """The U-Net: features of frames, joined with those of spikes at each scale on the way down.

    The finest spike features also reach the picture by one convolution (``readout``). This
    convolution and the last one start at zero: an untrained network returns the blurry frames.

    Args:
        settings: settings of the model; the section NAF is read.
        bins: voxel bins per frame; 0 for the ablation without spikes.
    """

    half_precision_weights = True

    def __init__(self, settings: ModelSettings, bins: int) -> None:
        super().__init__()
        sizes = settings.NAF
        encoder = sizes.ENCODER_BLOCKS
        decoder = sizes.DECODER_BLOCKS
        width = sizes.WIDTH
        spike_width = sizes.SPIKE_WIDTH
        widths = [width * 2**scale for scale in range(len(encoder) + 1)]
        cells = [side_at(sizes.POOLING_CELL, scale) for scale in range(len(encoder) + 1)]
        self.bins = bins
        self.neighbor_bins = sizes.NEIGHBOUR_BINS
        self.intro = nn.Conv2d(3, width, 3, padding=1)
        self.encoder = nn.ModuleList(map(nafnet_blocks, widths, encoder, cells))
        self.downs = nn.ModuleList(map(downsample, widths, widths[1:]))
        self.middle = nafnet_blocks(widths[-1], sizes.MIDDLE_BLOCKS, cells[-1])
        self.ups = nn.ModuleList(map(upsample, widths[1:]))
        self.decoder = nn.ModuleList(map(nafnet_blocks, widths, decoder, cells))
        self.ending = nn.Conv2d(width, 3, 3, padding=1)
        zero_init(self.ending)
        if bins:
            inputs = 1 + bins + 2 * self.neighbor_bins
            # The usual sensor has half the frames' resolution.
            self.spikes = SpikePyramid(
                inputs, spike_width, len(encoder), sizes.SPIKE_BLOCKS, cells[1]
            )
            self.fusion = nn.ModuleList(
                nn.Conv2d(channels + spike_width, channels, 1) for channels in widths
            )
            self.readout = nn.Conv2d(spike_width, 3, 3, padding=1)
            zero_init(self.readout)
            self.detail = detail_upsample(spike_width) if sizes.LEARNED_ENLARGEMENT else None

    def forward(self, blur: Tensor, voxels: Tensor | None) -> Tensor:
        """Restore the frames of a clip one by one.

        Args:
            blur: (B, T, 3, H, W) in [0, 1].
            voxels: (B, T, K, h, w), standardised, at the resolution of the spike sensor; or
                (B, T + 2, K, h, w), with those of the frame before the clip and of the one after.

        Returns:
            (B, T, 3, H, W), not clamped.

        Raises:
            ValueError: there are no voxels, or their numbers of frames or bins are wrong.
        """
        height, width = blur.shape[-2:]
        multiple = 2 ** len(self.encoder)
        padded = [round_up(side, multiple) for side in (height, width)]
        frames = pad_end(blur.flatten(0, 1), *padded)
        spikes = self._encode(blur, voxels, padded) if self.bins else []
        restored = frames + self._residual(frames, spikes)
        return restored[..., :height, :width].unflatten(0, blur.shape[:2])

    def _encode(self, blur: Tensor, voxels: Tensor | None, padded: Sequence[int]) -> list[Tensor]:
        """Spike features of all frames for each scale of the U-Net.

        Args:
            blur: as for :meth:`forward`.
            voxels: as for :meth:`forward`.
            padded: height and width of the padded frames.
        """
        clip = require_neighbors(blur, voxels, self.bins, pad=pad_with_means)
        grids = mean_and_deviations(clip, self.neighbor_bins).flatten(0, 1)
        sensor_scale = scale_of_sensor(blur.shape[-2], grids.shape[-2], len(self.encoder))
        # Sizes are derived from that of the frames, so that an export treats both as equal.
        size = [side_at(side, sensor_scale) for side in blur.shape[-2:]]
        if list(grids.shape[-2:]) != size:
            grids = functional.interpolate(grids, size, mode="bilinear")
        multiple = self.spikes.multiple
        padded_size = [round_up(side // 2**sensor_scale, multiple) for side in padded]
        levels = self.spikes(pad_end(grids, *padded_size))
        features = features_of_scales(levels, sensor_scale, padded)
        if self.detail is not None:
            features[0] = features[0] + self.detail(features[1])
        return features

    def _residual(self, frames: Tensor, spikes: Sequence[Tensor]) -> Tensor:
        """Return the correction of padded frames, (N, 3, H', W') -> the same shape."""
        x = self.intro(frames)
        skips = []
        for scale, down in enumerate(self.downs):
            x = self._fuse(x, spikes, scale)
            x = self.encoder[scale](x)
            skips.append(x)
            x = down(x)
        x = self._fuse(x, spikes, len(self.downs))
        x = self.middle(x)
        for scale in reversed(range(len(skips))):
            x = self.decoder[scale](self.ups[scale](x) + skips[scale])
        x = self.ending(x)
        if not spikes:
            return x
        return x + self.readout(spikes[0])

    def _fuse(self, x: Tensor, spikes: Sequence[Tensor], scale: int) -> Tensor:
        """Return features of a scale joined with those of its spikes; unchanged without spikes."""
        if not spikes:
            return x
        fused: Tensor = self.fusion[scale](torch.cat((x, spikes[scale]), dim=1))
        return fused
