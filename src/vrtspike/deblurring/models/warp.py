"""Sampling images and features along an optical flow."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def _targets(flow: Tensor) -> tuple[Tensor, Tensor]:
    """Column and row that each pixel points to, (N, H, W) each, in pixels."""
    height, width = flow.shape[-2:]
    columns = torch.arange(width, device=flow.device, dtype=flow.dtype)
    rows = torch.arange(height, device=flow.device, dtype=flow.dtype)
    return columns + flow[:, 0], rows[:, None] + flow[:, 1]


def flow_warp(x: Tensor, flow: Tensor, padding: str = "zeros") -> Tensor:
    """Sample ``x`` bilinearly where the flow points (align_corners=True).

    Args:
        x: (N, C, H, W).
        flow: (N, 2, H, W), displacement in pixels, x first.
        padding: ``zeros`` or ``border``, what lies outside of ``x``.

    Returns:
        (N, C, H, W) in the type of ``x``; computed in float32 or better, because half precision
        cannot name the pixels of a large picture.
    """
    height, width = x.shape[-2:]
    exact = torch.promote_types(torch.promote_types(x.dtype, flow.dtype), torch.float32)
    columns, rows = _targets(flow.to(exact))
    grid = torch.stack(
        (2 * columns / max(width - 1, 1) - 1, 2 * rows / max(height - 1, 1) - 1), dim=-1
    )
    sampled = functional.grid_sample(
        x.to(exact), grid, mode="bilinear", padding_mode=padding, align_corners=True
    )
    return sampled.to(x.dtype)


def corner_warp(x: Tensor, flow: Tensor) -> Tensor:
    """The four pixels around each flow target, zero outside of the picture.

    The positions are integers, so no gradient reaches the flow.

    Args:
        x: (N, C, H, W).
        flow: (N, 2, H, W), displacement in pixels, x first.

    Returns:
        (N, 4C, H, W): floor/floor, floor x & ceil y, ceil x & floor y, ceil/ceil.
    """
    height, width = x.shape[-2:]
    columns, rows = _targets(flow.detach().float())
    pixels = x.flatten(2)
    corners = []
    for column in (columns.floor(), columns.ceil()):
        for row in (rows.floor(), rows.ceil()):
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            # Far targets and non-finite flows must not leave the range of an index.
            position = torch.where(inside, row * width + column, 0.0).long().flatten(1)
            picked = pixels.gather(2, position[:, None].expand(-1, x.shape[1], -1))
            corners.append(picked.unflatten(2, (height, width)) * inside[:, None].to(x.dtype))
    return torch.cat(corners, dim=1)
