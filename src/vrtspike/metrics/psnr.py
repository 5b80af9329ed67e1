"""PSNR of single frames; :mod:`vrtspike.evaluation.protocols` has the variants of papers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.rgb_images import PEAK, Image, require_pair, studio_luma
from vrtspike.metrics.metric import FunctionMetric


def psnr(restored: Image, sharp: Image) -> float:
    """Return the peak signal-to-noise ratio of one frame in dB.

    It is ``10 log10(255^2 / MSE)``, with the mean squared error over all pixels and channels.

    Args:
        restored: (H, W, 3) uint8 RGB.
        sharp: the reference, same shape.

    Returns:
        dB; infinite for equal images.

    >>> sharp = np.full((4, 4, 3), 100, np.uint8)
    >>> round(psnr(sharp + np.uint8(10), sharp), 2)
    28.13
    >>> psnr(sharp, sharp)
    inf
    """
    require_pair(restored, sharp)
    return psnr_of_values(restored, sharp)


def psnr_y(restored: Image, sharp: Image) -> float:
    """Return the PSNR of one frame on the studio luma, with peak 255.

    Arguments as for :func:`psnr`.

    >>> sharp = np.full((4, 4, 3), 100, np.uint8)
    >>> round(psnr_y(sharp + np.uint8(10), sharp), 2)
    29.45
    """
    require_pair(restored, sharp)
    return psnr_of_values(studio_luma(restored), studio_luma(sharp))


def psnr_of_values(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the PSNR in dB of values of any shape from 0 to 255, neither rounded nor clipped.

    >>> psnr_of_values(np.array([110.5]), np.array([100.5])).__round__(2)
    28.13
    """
    error = float(np.mean(np.square(a.astype(np.float64) - b)))
    return float("inf") if error == 0 else float(10 * np.log10(PEAK**2 / error))


PSNR = FunctionMetric(
    "psnr",
    "PSNR",
    "PSNR in dB per frame on 8-bit RGB, peak 255; mean over frames, then over sequences",
    psnr,
    unit="dB",
    decimals=2,
)

PSNR_Y = FunctionMetric(
    "psnr_y",
    "PSNR of Y",
    "PSNR in dB per frame on Y (BT.601, studio range 16 to 235, not rounded), peak 255; "
    "mean over frames, then over sequences",
    psnr_y,
    unit="dB",
    decimals=2,
    is_color_sensitive=False,
)
