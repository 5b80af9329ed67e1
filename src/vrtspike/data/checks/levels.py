"""Comparison of the colours, brightness and contrast of blurry and sharp frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.frame_summaries import Gray, ImageSummary
from vrtspike.data.checks.similarity import correlation

MAX_FLAT = 1.0
"""Maximum standard deviation, of 255, of a picture that shows nothing."""
MAX_UNLIKE_COLORS = -0.2
"""Correlation of the colours of a blurry and a sharp frame (less their mean, which two cameras see
differently) below which their channels are in another order. Correct pairs: GoPro 0.99, generated
data at least 0.9, 0.16 where textures move far; with red and blue exchanged in one of them -0.46 to
-0.98 in natural pictures."""
MIN_COLOR = 2.0
"""Mean deviation of both pictures from their mean colour, of 255, below which the order of channels
is not compared; natural pictures: 7 to 28."""
MIN_COLORED = 8.0
"""Mean deviation of one picture, of 255, from which the other must have colours, too: two cameras
whose gains differ by a tenth make up to 5 in grey scenes."""
MIN_COLOR_SHARE = 0.1
"""Minimum colour of one as a share of the other's, in the median of a sequence: 0.3 to 1 in correct
pairs, 0.0 if one is grey."""
MAX_LEVEL_DIFFERENCE = 25.0
"""Maximum difference of a channel's means, of 255, in the median of a sequence and beyond its
uncertainty. Averaged coded values: 0.1 (GoPro), at most 0.4 (generated). Averaged in linear light,
which is brighter: 4.5 (Sintel), up to 19 (generated, saturated skies that move far). Two cameras
behind a beam splitter (BSD) differ a little in colour; gains that differ by a tenth make 18."""
MAX_SPREAD = 1.5
"""Maximum coarse contrast of a blurry frame over that of its sharp one, in the same median: 0.36 to
1.1 in correct pairs, up to 1.18 if few bright points are averaged in linear light; blur hardly adds
contrast."""
ERROR_PER_DEVIATION = 1.86
"""Standard error of a median, times the square root of the number of values, for their median
absolute deviation: 1.48 for the standard deviation times 1.25 for the median."""

_ADVICE = "write both with the same exposure, colour balance and gamma"


class LevelComparison:
    """Colours, brightness and contrast of a sequence's pairs of frames."""

    def __init__(self) -> None:
        self._first_pair = ("", "")
        """Paths of the first blurry and sharp frame."""
        self._level_differences: list[Gray] = []
        self._spreads: list[Gray] = []
        self._color_shares: list[float] = []

    def add(self, blur: ImageSummary, sharp: ImageSummary) -> str | None:
        """Add a pair of frames.

        Returns:
            the fault of a pair whose channels are in another order; None for any other pair.
        """
        if not any(self._first_pair):
            self._first_pair = (blur.path, sharp.path)
        if min(blur.contrast, sharp.contrast) <= MAX_FLAT:
            return None
        self._level_differences.append(blur.mean - sharp.mean)
        spread = blur.spread / np.maximum(sharp.spread, np.float32(1))
        self._spreads.append(np.asarray(spread, np.float32))
        less_color, more_color = sorted((_rms(blur.colors), _rms(sharp.colors)))
        if more_color >= MIN_COLORED:
            self._color_shares.append(less_color / more_color)
        if less_color < MIN_COLOR:
            return None
        return _order_fault(blur, sharp)

    def color_fault(self) -> str | None:
        """Return the fault of a sequence of which only blurry or only sharp frames have colours."""
        if not self._color_shares or np.median(self._color_shares) >= MIN_COLOR_SHARE:
            return None
        blur, sharp = self._first_pair
        return (
            f"{blur}: one of it and {sharp} has colours, the other one has none ({self._count}); "
            "write both as RGB"
        )

    def brightness_fault(self) -> str | None:
        """Return the fault of a sequence whose blurry and sharp frames differ in brightness."""
        if not self._level_differences:
            return None
        # The error includes the flicker of lamps.
        difference, uncertainty = median_and_error(np.array(self._level_differences))
        if (np.abs(difference) - uncertainty).max() <= MAX_LEVEL_DIFFERENCE:
            return None
        blur, sharp = self._first_pair
        levels = ", ".join(f"{value:+.1f}" for value in difference)
        return (
            f"{blur}: the channels' means differ from those of {sharp} by {levels} of 255 "
            f"({self._count}, expected at most {MAX_LEVEL_DIFFERENCE:.0f}): {_ADVICE}"
        )

    def contrast_fault(self) -> str | None:
        """Return the fault of blurry frames that have more contrast than the sharp ones."""
        if not self._spreads:
            return None
        spread, uncertainty = median_and_error(np.array(self._spreads))
        if (spread - uncertainty).max() <= MAX_SPREAD:
            return None
        blur, sharp = self._first_pair
        return (
            f"{blur}: {spread.max():.1f} times the contrast of {sharp} ({self._count}, expected at "
            f"most {MAX_SPREAD}): {_ADVICE}"
        )

    @property
    def _count(self) -> str:
        return f"median of {len(self._level_differences)} frames"


def _order_fault(blur: ImageSummary, sharp: ImageSummary) -> str | None:
    """Return the fault of a pair whose channels are in another order."""
    likeness = correlation(blur.colors, sharp.colors)
    if likeness >= MAX_UNLIKE_COLORS:
        return None
    exchanged = correlation(np.ascontiguousarray(blur.colors[..., ::-1]), sharp.colors)
    cause = "the channels of one of them are in another order"
    if exchanged > -likeness / 2:
        cause = f"red and blue are exchanged in one of them (exchanged back: {exchanged:.2f})"
    return (
        f"{blur.path}: not the colours of {sharp.path} (correlation {likeness:.2f}, expected "
        f"at least {MAX_UNLIKE_COLORS}): {cause}; write both as RGB"
    )


def median_and_error(values: NDArray[np.floating]) -> tuple[Any, Any]:
    """Return the median along the first axis, and twice its standard error."""
    center = np.median(values, axis=0)
    deviation = np.median(np.abs(values - center), axis=0)
    return center, 2 * ERROR_PER_DEVIATION * deviation / len(values) ** 0.5


def _rms(colors: Gray) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(colors))))
