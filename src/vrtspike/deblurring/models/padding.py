"""Padding pictures to the multiple a network works on."""

from __future__ import annotations

import torch
from torch import Tensor


def pad_to_multiple(x: Tensor, multiple: int) -> Tensor:
    """Pad the last two axes at their ends by reflection (without repeating the border).

    Axes shorter than the padding are reflected as often as needed.

    Args:
        x: (..., H, W).
        multiple: what the new height and width are multiples of.

    Returns:
        (..., H', W'); ``x`` itself if nothing is to be done.

    >>> pad_to_multiple(torch.tensor([[1, 2, 3]] * 4), 4)[0]
    tensor([1, 2, 3, 2])
    """
    for axis in (-2, -1):
        length = x.shape[axis]
        target = -(-length // multiple) * multiple
        if target != length:
            x = x.index_select(axis, _reflected(length, target, x.device))
    return x


def _reflected(length: int, target: int, device: torch.device) -> Tensor:
    """Positions 0, 1, ..., length - 1, length - 2, ..., 1, 0, 1, ... up to ``target`` of them."""
    period = max(2 * (length - 1), 1)
    position = torch.arange(target, device=device) % period
    return torch.minimum(position, period - position) if length > 1 else position
