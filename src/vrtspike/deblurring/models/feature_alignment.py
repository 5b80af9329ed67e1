"""Parallel warping: flow-guided deformable alignment of each frame's neighbours.

Source: VRT (Liang et al., 2022), after BasicVSR++ (Chan et al., 2022), whose first stage of
alignment is the flow and whose second is a modulated deformable convolution (Zhu et al., 2019).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.deform import (
    KERNEL,
    POINTS,
    beside_frames,
    by_kernels,
    by_point,
    deform_by_kernel,
    guide_by_kernel,
    guided_deform_conv,
    neighbours,
)
from vrtspike.deblurring.models.layers import activated_conv, start_at_zero
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.warp import flow_warp

_SLOPE = 0.1


class DeformableAlignment(nn.Module):
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
        self.groups = groups
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

    def forward(self, neighbour: Tensor, current: Tensor, flow: Tensor) -> Tensor:
        """Align ``neighbour`` to ``current``.

        Args:
            neighbour: (N, C, H, W) features of the neighbouring frame.
            current: (N, C, H, W) features of the frame itself.
            flow: (N, 2, H, W), from the frame into its neighbour, in pixels, x first.

        Returns:
            (N, C, H, W).
        """
        warped = flow_warp(neighbour, flow)
        guide = torch.cat((warped, current, flow.to(current.dtype)), dim=1)
        raw = self.conv_offset(guide)
        return guided_deform_conv(neighbour, raw, flow, self.weight, self.bias, self.max_magnitude)

    def align_by_kernels(
        self, x: Tensor, flow: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """All neighbours of frames at once, channels last throughout.

        Args:
            x: (B, T, H, W, C) features, T at least 2.
            flow: (N, 2, H, W) of its pairs, see :func:`neighbours`.
            dtype: of the products.

        Returns:
            ``x`` in that type, and the aligned neighbours (B, T, H, W, 2C), see
            :func:`beside_frames`.
        """
        x, guide = guide_by_kernel(x, flow, dtype)
        raw, shift = self._raw_by_point(guide)
        weights = (self.weight, self.bias, self.max_magnitude)
        return x, deform_by_kernel(x, raw, shift, flow, *weights)

    def _raw_by_point(self, guide: Tensor) -> tuple[Tensor, Tensor]:
        """What ``conv_offset`` gives for a guide with constants behind it.

        Returns:
            (N, H, W, 9, 3, groups) and the last bias, (9, 3, groups), still to be added.
        """
        first, *middle, last = (x for x in self.conv_offset if isinstance(x, nn.Conv2d))
        x = guide.permute(0, 3, 1, 2)
        x = functional.conv2d(x, _with_bias(first, guide.shape[-1]), padding=1)
        x = functional.leaky_relu(x, _SLOPE, inplace=True)
        for layer in middle:
            x = activated_conv(layer, x, _SLOPE)
        assert last.bias is not None
        weight, shift = (by_point(t, self.groups) for t in (last.weight, last.bias))
        x = functional.conv2d(x, weight.flatten(0, 2), padding=1)
        return x.permute(0, 2, 3, 1).unflatten(-1, shift.shape), shift


def _with_bias(layer: nn.Conv2d, fan_in: int) -> Tensor:
    """A 3 x 3 convolution's weights for its input, a channel of ones and channels of zeros."""
    assert layer.bias is not None
    centre = functional.pad(layer.bias[:, None, None, None], (1, 1, 1, 1))
    whole = torch.cat((layer.weight, centre), dim=1)
    return functional.pad(whole, (0, 0, 0, 0, 0, fan_in - whole.shape[1]))


def align_neighbours(
    align: DeformableAlignment, x: Tensor, backward: Tensor, forward: Tensor
) -> tuple[Tensor, Tensor]:
    """Align every frame's next and previous neighbour, all 2(T-1) of them as one batch.

    Args:
        align: the deformable alignment.
        x: (B, T, H, W, C) features.
        backward: (B, T-1, 2, H, W), flow from frame t to t + 1.
        forward: (B, T-1, 2, H, W), flow from frame t + 1 to t.

    Returns:
        The features in the type of products, to be used from here on, and the aligned next and
        previous frames on the channels, (B, T, H, W, 2C); zeros where there is none. Nothing adds
        up in here: features are operands of products, at half the stream's bytes.
    """
    b, t, h, w, c = x.shape
    dtype = autocast_dtype(x)
    if t == 1:
        x = x.to(dtype)
        return x, x.new_zeros(b, t, h, w, 2 * c)
    flow = torch.cat((backward, forward)).flatten(0, 1)
    if by_kernels(x, dtype, align.groups, c):
        return align.align_by_kernels(x, flow, dtype)
    x = x.to(dtype)
    neighbour, current = (frames.permute(0, 3, 1, 2) for frames in neighbours(x))
    return x, beside_frames(align(neighbour, current, flow).permute(0, 2, 3, 1), t)
