"""Parallel warping: flow-guided deformable alignment of each frame's neighbours.

Source: VRT (Liang et al., 2022), after BasicVSR++ (Chan et al., 2022), whose first stage of
alignment is the flow and whose second is a modulated deformable convolution (Zhu et al., 2019,
"Deformable ConvNets v2").
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vrtspike.models.flow import flow_warp, gather_neighbors, neighbor_pairs, sample_at
from vrtspike.models.layers import RecomputedModule, zero_init
from vrtspike.models.mixed_precision import autocast_dtype, without_autocast

KERNEL = 3
POINTS = KERNEL * KERNEL
_SLOPE = 0.1
_MAX_SAMPLED_CPU = 1 << 22
"""Maximum number of values sampled at once: 16 MiB, a frame of 64 x 64 with 96 channels, stay in
the cache of a CPU."""
MAX_SAMPLED_CUDA = 1 << 27
"""The same for a GPU: it has no such cache, and few large pieces (512 MiB) keep it busy."""


class DeformableAlignment(RecomputedModule):
    """Modulated deformable 3 x 3 convolution whose offsets are a flow plus a learned correction.

    The last convolution of the offsets starts at zero: no correction, and every modulation is one
    half.

    Args:
        channels: feature channels.
        groups: offset groups; ``channels`` must be a multiple.
        max_magnitude: bound of the learned correction in pixels.

    Attributes:
        max_sampled: maximum number of values sampled at a time; None: as suits the device.
    """

    max_sampled: int | None = None

    def __init__(self, channels: int, groups: int, max_magnitude: float) -> None:
        super().__init__()
        self.max_magnitude = max_magnitude
        self.weight = nn.Parameter(torch.empty(channels, channels, KERNEL, KERNEL))
        self.bias = nn.Parameter(torch.zeros(channels))
        bound = (channels * POINTS) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)

        def conv(in_channels: int, out_channels: int) -> nn.Conv2d:
            return nn.Conv2d(in_channels, out_channels, 3, padding=1)

        self.conv_offset = nn.Sequential(
            conv(2 * channels + 2, channels),
            nn.LeakyReLU(_SLOPE, inplace=True),
            conv(channels, channels),
            nn.LeakyReLU(_SLOPE, inplace=True),
            conv(channels, channels),
            nn.LeakyReLU(_SLOPE, inplace=True),
            conv(channels, 3 * POINTS * groups),
        )
        zero_init(self.conv_offset[-1])

    def forward(self, x: Tensor, flows: Tensor) -> Tensor:
        """Align every frame's next and previous neighbour, all 2(T-1) of them as one batch.

        Args:
            x: (B, T, H, W, C) features.
            flows: (2 * B * (T-1), 2, H, W), of the pairs of
                :func:`~vrtspike.models.flow.neighbor_pairs`, in pixels, x first.

        Returns:
            (B, T, H, W, 2C): the aligned next and previous frames; zeros at the ends of the clip.
        """
        pictures = x.to(autocast_dtype(x)).permute(0, 1, 4, 2, 3)  # operands of products
        current, neighbor = neighbor_pairs(pictures)
        warped = flow_warp(neighbor, flows)
        raw = self.conv_offset(torch.cat((warped, current, flows.to(warped.dtype)), dim=1))
        aligned = guided_deform_conv(
            neighbor, raw, flows, self.weight, self.bias, self.max_magnitude, self.max_sampled
        )
        return gather_neighbors(aligned.permute(0, 2, 3, 1), len(x), dim=-1)


def guided_deform_conv(
    x: Tensor,
    raw: Tensor,
    flow: Tensor,
    weight: Tensor,
    bias: Tensor,
    max_magnitude: float,
    max_sampled: int | None = None,
) -> Tensor:
    """3 x 3 deformable convolution with padding 1 of pictures, whose samples follow a flow.

    The sampled values, nine times the features, are computed for a few pictures at a time, and
    again for the gradient.

    Args:
        x: (N, C, H, W).
        raw: (N, groups * 27, H, W), any values. The first 18 of a group become the displacements of
            its 9 taps, ``max_magnitude * tanh(raw) + flow``, in (y, x) pairs; then 9 of each group
            become their modulation, ``sigmoid(raw)``.
        flow: (N, 2, H, W), x first, pixels; of any length.
        weight: (C', C, 3, 3).
        bias: (C',).
        max_magnitude: bound of the learned displacement, pixels.
        max_sampled: maximum number of values sampled at a time; None: as suits the device.

    Returns:
        (N, C', H, W). Positions are always float32 or better: half precision would round them to
        whole pixels on a large picture.
    """
    matrix = weight.flatten(1)

    def convolve(x: Tensor, raw: Tensor, flow: Tensor) -> Tensor:
        with without_autocast(x):
            sampled = _sample(x, raw, flow, max_magnitude)
        out = torch.matmul(matrix.to(x.dtype), sampled.to(x.dtype)) + bias.to(x.dtype)[:, None]
        return out.unflatten(2, x.shape[2:])

    if max_sampled is None:
        max_sampled = MAX_SAMPLED_CUDA if x.is_cuda else _MAX_SAMPLED_CPU
    pictures = max(max_sampled // (POINTS * x.shape[1:].numel()), 1)
    parts = zip(x.split(pictures), raw.split(pictures), flow.split(pictures), strict=True)
    return torch.cat([checkpoint(convolve, *part, use_reentrant=False) for part in parts])


def _sample(x: Tensor, raw: Tensor, flow: Tensor, max_magnitude: float) -> Tensor:
    """Modulated samples in the order of the weights, (N, C * 9, H * W).

    Arguments as for :func:`guided_deform_conv`; shapes below have G for groups.
    """
    pictures, _, height, width = x.shape
    exact = torch.promote_types(raw.dtype, torch.float32)
    x = x.to(exact)
    raw = raw.to(exact)
    flow = flow.to(exact)
    groups = raw.shape[1] // (3 * POINTS)
    moves, modulation = raw.split((2 * POINTS * groups, POINTS * groups), dim=1)
    # Offsets come in (y, x) pairs, the flow in (x, y): (N, G * 9, 2, H, W).
    offsets = max_magnitude * moves.tanh().unflatten(1, (-1, 2)) + flow.flip(1).unsqueeze(1)
    taps = (pictures * groups, KERNEL, KERNEL)
    # (N * G, 3, 3, H, W) each, as the positions.
    y_offsets, x_offsets = offsets.view(*taps, 2, height, width).unbind(3)
    tap = torch.arange(KERNEL, device=x.device)
    rows = torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device)
    y_positions = y_offsets + (tap[:, None, None, None] - KERNEL // 2 + rows[:, None])
    x_positions = x_offsets + (tap[:, None, None] - KERNEL // 2 + columns)
    groups_of_channels = x.unflatten(1, (groups, -1)).flatten(0, 1)  # (N * G, C / G, H, W)
    sampled = sample_at(groups_of_channels, x_positions, y_positions)  # (N * G, C / G, 3, 3, H, W)
    factors = modulation.sigmoid().reshape(*taps, height, width)  # (N * G, 3, 3, H, W)
    sampled = sampled * factors.unsqueeze(1)
    sampled = sampled.unflatten(0, (pictures, groups))  # (N, G, C / G, 3, 3, H, W)
    return sampled.flatten(1, 4).flatten(2)
