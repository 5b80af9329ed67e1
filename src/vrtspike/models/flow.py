"""Optical flow by a spatial pyramid network, and sampling along it.

Source: Ranjan and Black, 2017, "Optical Flow Estimation using a Spatial Pyramid Network", in the
form VRT uses: six levels, flows returned at four scales.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.io.backbone_weights import IMAGENET_MEAN, IMAGENET_STD
from vrtspike.models.layers import RecomputedModule, zero_init
from vrtspike.models.mixed_precision import without_autocast
from vrtspike.system.rounding import round_up


def sample_at(
    x: Tensor, columns: Tensor, rows: Tensor, mode: str = "bilinear", padding: str = "zeros"
) -> Tensor:
    """Sample pictures at positions in float32 or better; half precision lacks some positions.

    Args:
        x: (N, C, H, W).
        columns: (N, ..., H', W') positions in pixels; NaN is outside, or with ``border`` at the
            first pixel.
        rows: the same shape.
        mode: ``bilinear`` or ``nearest``.
        padding: values outside of ``x``: ``zeros`` or ``border``.

    Returns:
        (N, C, ..., H', W') in the type of ``x``.
    """
    height, width = x.shape[-2:]
    exact = torch.promote_types(torch.promote_types(x.dtype, columns.dtype), torch.float32)
    # Pixel p of n has its centre at (2p + 1) / n - 1 with align_corners=False; that convention,
    # unlike the other, also holds for a single row or column.
    x_grid = columns * (2 / width) + (1 / width - 1)
    y_grid = rows * (2 / height) + (1 / height - 1)
    grid = torch.stack((x_grid, y_grid), dim=-1)
    grid = grid.to(exact).flatten(1, -3)
    if padding == "border":
        # PyTorch's gradient on a CPU crashes with NaN (pytorch issue 24823); -1 is the first pixel,
        # as in the forward pass.
        grid = grid.nan_to_num(nan=-1.0)
    samples = functional.grid_sample(x.to(exact), grid, mode, padding, align_corners=False)
    return samples.view(*x.shape[:2], *columns.shape[1:]).to(x.dtype)


def flow_targets(flow: Tensor) -> tuple[Tensor, Tensor]:
    """Column and row that each pixel points to, (N, H, W) each, in pixels, float32 or better."""
    flow = flow.to(torch.promote_types(flow.dtype, torch.float32))
    rows = torch.arange(flow.shape[-2], device=flow.device)
    columns = torch.arange(flow.shape[-1], device=flow.device)
    return columns + flow[:, 0], rows[:, None] + flow[:, 1]


def flow_warp(x: Tensor, flow: Tensor, padding: str = "zeros") -> Tensor:
    """Sample ``x`` bilinearly at the targets of a flow.

    Args:
        x: (N, C, H, W).
        flow: (N, 2, H, W), displacement in pixels, x first.
        padding: values outside of ``x``: ``zeros`` or ``border``.

    Returns:
        (N, C, H, W) in the type of ``x``.
    """
    return sample_at(x, *flow_targets(flow), padding=padding)


def corner_warp(x: Tensor, flow: Tensor) -> Tensor:
    """Return the four pixels around each flow target, zero outside of the picture.

    The positions are integers, so no gradient reaches the flow.

    Args:
        x: (N, C, H, W).
        flow: (N, 2, H, W), displacement in pixels, x first.

    Returns:
        (N, 4C, H, W): floor/floor, floor x & ceil y, ceil x & floor y, ceil/ceil.
    """
    columns, rows = flow_targets(flow.detach())
    left = columns.floor()
    right = columns.ceil()
    top = rows.floor()
    bottom = rows.ceil()
    corners = ((left, top), (left, bottom), (right, top), (right, bottom))
    return torch.cat([sample_at(x, *corner, mode="nearest") for corner in corners], dim=1)


def neighbor_pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return all pairs of neighbouring frames.

    Args:
        x: (B, T, ...).

    Returns:
        frames and their neighbours, (2 * B * (T-1), ...) each: every frame with its next one, then
        every frame with its previous one.
    """
    early = x[:, :-1]
    late = x[:, 1:]
    frames = torch.cat((early, late)).flatten(0, 1)
    neighbors = torch.cat((late, early)).flatten(0, 1)
    return frames, neighbors


def gather_neighbors(x: Tensor, clips: int, dim: int) -> Tensor:
    """Join, for each frame of clips, the results of its next and of its previous frame.

    Args:
        x: (2 * B * (T-1), ...), of the pairs of :func:`neighbor_pairs`; three more axes.
        clips: B.
        dim: axis of the result on which both are joined.

    Returns:
        (B, T, ...), zeros for a missing neighbour.
    """
    next_ones, previous_ones = x.unflatten(0, (2, clips, -1))
    inner_axes = (0, 0) * 3
    next_padded = functional.pad(next_ones, (*inner_axes, 0, 1))
    previous_padded = functional.pad(previous_ones, (*inner_axes, 1, 0))
    return torch.cat((next_padded, previous_padded), dim=dim)


_LEVELS = 6
_MULTIPLE = 2 ** (_LEVELS - 1)
_WIDTHS = (8, 32, 64, 32, 16, 2)


class FlowLevel(nn.Module):
    """Five 7 x 7 convolutions that estimate a correction of the flow at one pyramid level."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for in_channels, out_channels in itertools.pairwise(_WIDTHS):
            layers += [nn.Conv2d(in_channels, out_channels, 7, padding=3), nn.ReLU()]
        self.basic_module = nn.Sequential(*layers[:-1])
        zero_init(self.basic_module[-1])

    def forward(self, x: Tensor) -> Tensor:
        """(N, 8, H, W), two pictures and a flow -> (N, 2, H, W)."""
        return self.basic_module(x)


class SpyNet(RecomputedModule):
    """Flow between pairs of pictures at scales 1, 1/2, 1/4 and 1/8.

    A network without pretrained weights starts at zero flow: the last convolution of every level
    is zero, so that alignment begins as "no motion" and not as noise.
    """

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.basic_module = nn.ModuleList(FlowLevel() for _ in range(_LEVELS))
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1))

    def _pyramid(self, x: Tensor) -> list[Tensor]:
        """Normalised picture at six sizes, the coarsest first."""
        size = [round_up(side, _MULTIPLE) for side in x.shape[-2:]]
        x = functional.interpolate(x, size, mode="bilinear", align_corners=False)
        levels = [(x - self.mean) / self.std]
        for _ in range(_LEVELS - 1):
            levels.append(functional.avg_pool2d(levels[-1], 2, 2, count_include_pad=False))
        return levels[::-1]

    def forward(self, reference: Tensor, supporting: Tensor, scales: int = 4) -> list[Tensor]:
        """Flow that points from ``reference`` into ``supporting``.

        Computed in the type of the weights, without autocast: a displacement of 40 pixels is
        sampled at a hundredth of a pixel, while bfloat16 has steps of a quarter there. With weights
        of half precision, the displacements themselves are still float32.

        Args:
            reference: (N, 3, H, W) in [0, 1].
            supporting: (N, 3, H, W) in [0, 1].
            scales: number of flows to return.

        Returns:
            For scale 1, 1/2, 1/4, ...: (N, 2, H // s, W // s) in pixels of that scale, x first, in
            float32 or better.
        """
        height, width = reference.shape[-2:]
        with without_autocast(reference):
            first = self._pyramid(reference)
            second = self._pyramid(supporting)
            flows: list[Tensor] = []
            # "Zero at half the coarsest size", doubled, is zero at the coarsest size.
            exact = torch.promote_types(reference.dtype, torch.float32)
            flow = torch.zeros_like(first[0][:, :2], dtype=exact)
            for level, (a, b) in enumerate(zip(first, second, strict=True)):
                if level:
                    flow = 2.0 * functional.interpolate(
                        flow, scale_factor=2, mode="bilinear", align_corners=True
                    )
                warped = flow_warp(b, flow, padding="border")
                pictures_and_flow = torch.cat((a, warped, flow.to(a.dtype)), dim=1)
                flow = self.basic_module[level](pictures_and_flow) + flow
                flows.append(flow)
            return [
                _resize_flow(flow, height // 2**scale, width // 2**scale)
                for scale, flow in enumerate(flows[::-1][:scales])
            ]


def _resize_flow(flow: Tensor, height: int, width: int) -> Tensor:
    """Resize a flow to another picture size and rescale its displacements with it."""
    from_height, from_width = flow.shape[-2:]
    if (from_height, from_width) == (height, width):
        return flow
    flow = functional.interpolate(flow, (height, width), mode="bilinear", align_corners=False)
    x, y = flow.split(1, dim=1)
    # The flow is scaled by numbers instead of a tensor, whose copy to the device would make the GPU
    # wait.
    return torch.cat((x * (width / from_width), y * (height / from_height)), dim=1)
