"""The 8-bit images that are stored, shown and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

PEAK = 255.0

Image = NDArray[np.uint8]
"""RGB, (H, W, 3)."""


def studio_luma(image: NDArray[Any]) -> NDArray[np.float64]:
    """Y of ITU-R BT.601 in the studio range, as MATLAB's ``rgb2ycbcr`` defines it, not rounded.

    Args:
        image: (H, W, 3) RGB on the scale of 0 to 255.

    Returns:
        (H, W) float64 in [16, 235].

    >>> black_and_white = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    >>> studio_luma(black_and_white).round(6).tolist()
    [[16.0, 235.0]]
    """
    weights = np.array([65.481, 128.553, 24.966]) / PEAK
    return image.astype(np.float64) @ weights + 16.0


def require_pair(restored: Image, sharp: Image) -> None:
    """Reject what cannot be compared.

    Raises:
        ValueError: if one is not uint8 (H, W, 3), or their shapes differ.
    """
    for name, image in (("restored", restored), ("sharp", sharp)):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
            raise ValueError(
                f"{name} must be uint8 (H, W, 3), got {image.dtype} of shape {image.shape}"
            )
    if restored.shape != sharp.shape:
        raise ValueError(f"shapes differ: restored {restored.shape}, sharp {sharp.shape}")


def to_uint8(frames: torch.Tensor) -> Image:
    """Round a restored clip to the 8-bit images that are stored and measured.

    Args:
        frames: (..., 3, H, W), any float type, nominally in [0, 1]; values outside are clipped.

    Returns:
        (..., H, W, 3) uint8, nearest value.

    Raises:
        ValueError: if a value is not finite: such an output has no image.

    >>> import torch
    >>> to_uint8(torch.tensor([-0.1, 0.5, 1.0]).view(3, 1, 1)).tolist()
    [[[0, 128, 255]]]
    """
    return to_image(frames, 8).astype(np.uint8, copy=False)


def to_image(frames: torch.Tensor, bits: int) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Round a restored clip to images of 8 or 16 bits per channel; else as :func:`to_uint8`.

    >>> import torch
    >>> to_image(torch.tensor([-0.1, 0.5, 1.0]).view(3, 1, 1), 16).tolist()
    [[[0, 32768, 65535]]]
    """
    import torch

    values = frames.detach().float()
    if not torch.isfinite(values).all():
        raise ValueError("the frames hold values that are not finite")
    kind = torch.uint8 if bits == 8 else torch.uint16
    images = values.clamp(0, 1).mul(2**bits - 1).round().to(kind)
    return images.movedim(-3, -1).contiguous().cpu().numpy()
