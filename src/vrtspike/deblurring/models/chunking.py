"""Bounds on how many pixels a layer that works on each pixel alone processes at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from vrtspike.deblurring.models.recomputation import recomputed


@dataclass(frozen=True)
class ChunkPolicy:
    """How many pixels to process at once; the result of a layer does not depend on it.

    Attributes:
        adaptive: as many as ``max_tokens`` allows; else those of a tile of ``size``.
        max_tokens: bound on batch x frames x pixels of one chunk when adaptive.
        size: side length of a square tile in pixels when not adaptive.
    """

    adaptive: bool = True
    max_tokens: int = 49152
    size: int = 64

    def chunks(self, tokens: int, pixels: int, *, keeps: bool) -> int:
        """Number of chunks for batch x frames x pixels tokens.

        Args:
            tokens: batch x frames x pixels.
            pixels: of a frame.
            keeps: whether all results are kept for the backward pass anyway, so that adaptive
                chunks would only cost time.

        >>> ChunkPolicy(adaptive=False, size=64).chunks(5 * 128 * 128, 128 * 128, keeps=False)
        4
        """
        if not self.adaptive:
            return math.ceil(pixels / self.size**2)
        return 1 if keeps else min(math.ceil(tokens / self.max_tokens), pixels)


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
    batch, frames, height, width = x.shape[:4]
    pixels = height * width
    layer = partial(recomputed, checkpoint, layer)
    keeps = torch.is_grad_enabled() and not checkpoint
    count = policy.chunks(batch * frames * pixels, pixels, keeps=keeps)
    flat = [tensor.flatten(2, 3) for tensor in (x, *others)]
    if count == 1:
        # A slice of all pixels would copy its gradient.
        return layer(*flat).unflatten(2, (height, width))
    pieces = zip(*(tensor.tensor_split(count, dim=2) for tensor in flat), strict=True)
    return torch.cat([layer(*piece) for piece in pieces], dim=2).unflatten(2, (height, width))
