"""Error maps: the differences of two pictures, in colours."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

ERROR_TOP = 32
"""Difference in grey values that error maps show in the brightest colour."""

ERROR = "error"
"""Kind of the pictures of :func:`error_map`."""

_COLORS = cv2.COLORMAP_INFERNO

ColorMap = NDArray[np.uint8]


def error_map(result: ColorMap, truth: ColorMap) -> ColorMap:
    """Compute the error map of a frame, in colours from black (equal) to light yellow.

    Args:
        result: frame made by a model, uint8 (H, W, 3).
        truth: true frame of the same shape.

    Returns:
        uint8 (H, W, 3) RGB: the mean absolute difference over the channels, ``ERROR_TOP`` grey
        values and more in the brightest colour.
    """
    difference = cv2.absdiff(result, truth).astype(np.float32).mean(axis=-1)
    return colored(difference, ERROR_TOP)


def colored(values: NDArray[np.float32], top: float) -> ColorMap:
    """Show values in colours from black (0) to light yellow.

    Args:
        values: float32 (H, W), not negative.
        top: value from which on the colour is the brightest.

    Returns:
        uint8 (H, W, 3) RGB.
    """
    scaled = np.rint(values * (255 / top)).clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(scaled, _COLORS)[..., ::-1])


def error_colors() -> list[str]:
    """Return nine colours of :func:`error_map` from 0 to ``ERROR_TOP``, in CSS."""
    levels = np.linspace(0, 255, 9).round().astype(np.uint8)[None]
    colors = cv2.applyColorMap(levels, _COLORS)[0, :, ::-1]
    return [f"rgb({r} {g} {b})" for r, g, b in colors.tolist()]
