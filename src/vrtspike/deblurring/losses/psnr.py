"""The PSNR loss: the logarithm of each frame's mean squared error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from vrtspike.deblurring.losses.term import Term

if TYPE_CHECKING:
    from vrtspike.deblurring.settings.losses import PsnrSettings

_SMALLEST_ERROR = 1e-8
"""Added to mean squared errors: perfect frames count as 80 dB."""


def negative_psnr(restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
    """Minus the peak signal-to-noise ratio in dB, averaged over the frames.

    The loss of NAFNet (Chen et al., ECCV 2022). Its gradient is that of the mean squared error over
    that error, so that each frame counts alike, however blurry it was.

    Args:
        restored: (..., 3, H, W) in [0, 1].
        sharp: the same shape.

    Returns:
        a scalar, -80 for equal inputs.

    >>> negative_psnr(torch.full((2, 3, 4, 4), 0.5), torch.full((2, 3, 4, 4), 0.4))
    tensor(-20.0000)
    """
    errors = (restored - sharp).square().mean(dim=(-3, -2, -1))
    return 10 * (errors + _SMALLEST_ERROR).log10().mean()


def build_psnr(settings: PsnrSettings, weights: Path) -> Term:
    """The term ``psnr``."""
    return Term("psnr", settings.WEIGHT, negative_psnr)
