"""How the maps of window attention lie in each other, as our own kernels of token layers see it."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from vrtspike.deblurring.models.kernel_launch import tile
from vrtspike.deblurring.models.token_ops.launch import Launch, with_one
from vrtspike.deblurring.models.windows import WindowGeometry

Layout = list[int]
"""Tokens of the map and of both padded maps, then rows and columns of the map and of a padded one
(the two differ in frames alone), then size and shift of the windows of mutual attention, 1 and 0
where there is none."""


def layout(own: WindowGeometry, mutual: WindowGeometry | None) -> Layout:
    """How the maps of one call lie in each other.

    Args:
        own: windows of self attention.
        mutual: windows of mutual attention on the same map.
    """
    windows = (1, 1, 0, 0) if mutual is None else (*mutual.window[1:], *mutual.shift[1:])
    return [
        math.prod(own.size),
        math.prod(own.padded),
        math.prod((mutual or own).padded),
        *own.size[1:],
        *own.padded[1:],
        *windows,
    ]


def flat_layout(x: Tensor) -> Layout:
    """That of a map (B, D, H, W, C) without any windows."""
    length, size = math.prod(x.shape[1:4]), x.shape[2:4]
    return [length, length, length, *size, *size, 1, 1, 0, 0]


def _is_spatial(maps: Layout) -> bool:
    """Whether rows or columns have been padded, and not only frames."""
    return maps[3:5] != maps[5:7]


def constants_of(maps: Layout, channels: int) -> dict[str, Any]:
    """Compile-time constants that all kernels have."""
    return {"C": channels, "BLOCK_C": tile(with_one(channels)), "SPATIAL": _is_spatial(maps)}


def blocks(maps: Layout, coded: bool, launch: Launch) -> int:
    """Blocks of the longer padded map."""
    return -(-max(maps[1], maps[2] if coded else 0) // launch["BLOCK"])
