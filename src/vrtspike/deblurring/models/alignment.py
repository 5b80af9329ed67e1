"""Parallel warping: flow-guided deformable alignment of each frame's neighbours.

Source: VRT (Liang et al., 2022), after BasicVSR++ (Chan et al., 2022), whose first stage of
alignment is the flow and whose second is a modulated deformable convolution (Zhu et al., 2019).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.deform_conv import KERNEL, POINTS, guided_deform_conv
from vrtspike.deblurring.models.flow import flow_warp
from vrtspike.deblurring.models.layers import Recomputed, start_at_zero
from vrtspike.deblurring.models.mixed_precision import autocast_dtype

_SLOPE = 0.1


class DeformableAlignment(Recomputed):
    """Modulated deformable 3 x 3 convolution whose offsets are a flow plus a learned correction.

    The last convolution that makes the offsets starts at zero: no correction, every modulation
    one half.

    Args:
        channels: feature channels.
        groups: offset groups; ``channels`` must be a multiple.
        max_magnitude: bound of the learned correction in pixels.
    """

    def __init__(self, channels: int, groups: int, max_magnitude: float) -> None:
        super().__init__()
        self.max_magnitude = max_magnitude
        self.weight = nn.Parameter(torch.empty(channels, channels, KERNEL, KERNEL))
        self.bias = nn.Parameter(torch.zeros(channels))
        bound = (channels * POINTS) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)

        def conv(fan_in: int, fan_out: int) -> nn.Conv2d:
            return nn.Conv2d(fan_in, fan_out, 3, padding=1)

        self.conv_offset = nn.Sequential(
            conv(2 * channels + 2, channels),
            nn.LeakyReLU(_SLOPE, inplace=True),
            conv(channels, channels),
            nn.LeakyReLU(_SLOPE, inplace=True),
            conv(channels, channels),
            nn.LeakyReLU(_SLOPE, inplace=True),
            last := conv(channels, 3 * POINTS * groups),
        )
        start_at_zero(last)

    def forward(self, x: Tensor, backward: Tensor, forward: Tensor) -> Tensor:
        """Align every frame's next and previous neighbour, all 2(T-1) of them as one batch.

        Args:
            x: (B, T, H, W, C) features.
            backward: (B, T-1, 2, H, W), flow from frame t to t + 1 in pixels, x first.
            forward: (B, T-1, 2, H, W), flow from frame t + 1 to t.

        Returns:
            (B, T, H, W, 2C): the aligned next and previous frames; zeros where there is none.
        """
        clips, frames, *_, channels = x.shape
        if frames == 1:
            return x.new_zeros(*x.shape[:-1], 2 * channels)
        pictures = x.to(autocast_dtype(x)).permute(0, 1, 4, 2, 3)  # operands of products
        early, late = pictures[:, :-1], pictures[:, 1:]
        neighbour = torch.cat((late, early)).flatten(0, 1)
        current = torch.cat((early, late)).flatten(0, 1)
        flow = torch.cat((backward, forward)).flatten(0, 1)

        warped = flow_warp(neighbour, flow)
        raw = self.conv_offset(torch.cat((warped, current, flow.to(warped.dtype)), dim=1))
        aligned = guided_deform_conv(
            neighbour, raw, flow, self.weight, self.bias, self.max_magnitude
        )

        later, earlier = aligned.permute(0, 2, 3, 1).unflatten(0, (2, clips, frames - 1))
        edge = torch.zeros_like(later[:, :1])
        return torch.cat(
            (torch.cat((later, edge), dim=1), torch.cat((edge, earlier), dim=1)), dim=-1
        )
