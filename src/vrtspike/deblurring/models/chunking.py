"""Bounds on how many pixels a layer that works on each pixel alone processes at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from vrtspike.deblurring.models.recomputation import recomputed

ChunkShape = Literal["square", "wide", "tall"]


@dataclass(frozen=True)
class ChunkPolicy:
    """How to divide pixels; the result of a layer does not depend on it.

    Attributes:
        adaptive: as many pixels at once as ``max_tokens`` allows; else tiles of ``size``.
        max_tokens: bound on batch x frames x pixels of one chunk when adaptive.
        size: side length of a tile in pixels when not adaptive.
        shape: ``square`` tiles, or ``wide`` (half as high, twice as wide), or ``tall``.
    """

    adaptive: bool = True
    max_tokens: int = 49152
    size: int = 64
    shape: ChunkShape = "square"

    def tile(self) -> tuple[int, int]:
        """Height and width of a tile in pixels.

        >>> ChunkPolicy(size=64, shape="wide").tile()
        (32, 128)
        """
        half, double = max(self.size // 2, 1), 2 * self.size
        return {
            "square": (self.size, self.size),
            "wide": (half, double),
            "tall": (double, half),
        }[self.shape]


def map_pixels(
    layer: Callable[..., Tensor],
    policy: ChunkPolicy,
    checkpoint: bool,
    x: Tensor,
    *others: Tensor,
) -> Tensor:
    """Apply ``layer`` to all pixels, some at a time where that saves memory.

    Args:
        layer: takes and returns (B, T, P, C) tensors and treats each of the P pixels alone.
        policy: how to divide them.
        checkpoint: recompute each chunk in the backward pass.
        x: (B, T, H, W, C).
        others: further arguments of the same size.

    Returns:
        (B, T, H, W, C).
    """
    height, width = x.shape[2:4]
    tensors = (x, *others)
    layer = partial(recomputed, checkpoint, layer)
    if policy.adaptive:
        tokens = x.shape[0] * x.shape[1] * height * width
        count = min(math.ceil(tokens / policy.max_tokens), height * width)
        if torch.is_grad_enabled() and not checkpoint:
            # All is kept for the backward pass anyway; chunks would only cost time.
            count = 1
        flat = [tensor.flatten(2, 3) for tensor in tensors]
        if count == 1:
            # A slice of all pixels would copy its gradient.
            return layer(*flat).unflatten(2, (height, width))
        pieces = zip(*(tensor.tensor_split(count, dim=2) for tensor in flat), strict=True)
        done = [layer(*piece) for piece in pieces]
        return torch.cat(done, dim=2).unflatten(2, (height, width))
    tile_h, tile_w = policy.tile()
    rows = []
    for top in range(0, height, tile_h):
        row = []
        for left in range(0, width, tile_w):
            tiles = [t[:, :, top : top + tile_h, left : left + tile_w] for t in tensors]
            size = tiles[0].shape[2:4]
            row.append(layer(*(tile.flatten(2, 3) for tile in tiles)).unflatten(2, size))
        rows.append(torch.cat(row, dim=3))
    return torch.cat(rows, dim=2)
