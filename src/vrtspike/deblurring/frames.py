"""Restored clips as the images that are stored, shown and measured."""

from __future__ import annotations

import torch

from vrtspike.deblurring.rgb_images import PEAK, Image


def to_uint8(frames: torch.Tensor) -> Image:
    """Round a restored clip to the 8-bit images that are stored and measured.

    Args:
        frames: (..., 3, H, W), any float type, nominally in [0, 1]; values outside are clipped.

    Returns:
        (..., H, W, 3) uint8, nearest value.

    Raises:
        ValueError: if a value is not finite: such an output has no image.

    >>> to_uint8(torch.tensor([-0.1, 0.5, 1.0]).view(3, 1, 1)).tolist()
    [[[0, 128, 255]]]
    """
    values = frames.detach().float()
    if not torch.isfinite(values).all():
        raise ValueError("the frames hold values that are not finite")
    images = values.clamp(0, 1).mul(PEAK).round().to(torch.uint8)
    return images.movedim(-3, -1).contiguous().cpu().numpy()
