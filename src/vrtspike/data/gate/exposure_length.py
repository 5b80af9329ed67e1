"""Check the length of exposures against their blurry frames.

A blurry frame is most like the mean of the spikes of its own exposure. If things move, the mean of
half as many steps around the same instant is too sharp, and that of twice as many too blurry.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.gate.similarity import band_pass, correlation
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.io.images import shrink

MIN_LIKENESS = 0.9
"""Minimum correlation of the blurry frame with the better of two windows: 0.93 and more in
generated data. Below it the pattern of a noisy sensor decides, which is the same in each window,
and a shorter one seemed better by up to 0.02 in correct data."""
MIN_GAIN = 0.005
"""Minimum lead in correlation of another window, in the median of a sequence, beyond counting
noise. Correct generated data: worse by 0.001 (hardly any motion) to 0.5. Exposures of half the
length: better by 0.008 to 0.06; of twice the length: by 0.03 to 0.12."""
COUNTING_NOISE = 0.0066
"""Longer windows are less noisy, too: this, divided by the square of steps times contrast of the
rates, is the part of the correlation that counting spikes costs. The count of an integrating pixel
has a variance of 1/6, the band-pass leaves a 1/(4 pi) of it; half of their product."""
MIN_WIDENING = 0.25
"""Minimum part of an exposure that is recorded before and after it for a longer window."""
MIN_EXPOSURES = 3
"""Minimum number of exposures for a median that is trusted."""


class OtherLength(NamedTuple):
    """The match of another window of spikes with a blurry frame.

    Attributes:
        steps: steps of the window.
        likeness: correlation with the blurry frame.
        gain: its lead over the correlation of the exposure, less the part of counting noise.
        exposure: steps of the exposure.
        exposure_likeness: correlation of the exposure with the blurry frame.
    """

    steps: int
    likeness: float
    gain: float
    exposure: int
    exposure_likeness: float


class Lengths(NamedTuple):
    """A shorter and a longer window for an exposure; None if nothing can be said."""

    shorter: OtherLength | None
    longer: OtherLength | None


NOTHING = Lengths(None, None)


def widening(start: int, steps: int, total: int) -> int:
    """Return the added steps on each side of longer windows; 0 if too few are recorded.

    >>> widening(22, 44, 88), widening(18, 44, 88), widening(4, 44, 88)
    (22, 18, 0)
    """
    available = min(steps // 2, start, total - start - steps)
    return available if available >= MIN_WIDENING * steps else 0


def compare_lengths(
    spikes: PackedSpikes, blur: NDArray[np.uint8], sides: Sequence[PackedSpikes] = ()
) -> Lengths:
    """Compare a blurry frame with the spikes of its exposure, of half of it and of more.

    Args:
        spikes: spikes of the exposure, (T, h, w).
        blur: the blurry frame, grey uint8 (H, W).
        sides: spikes recorded just before and just after the exposure, as many of both.
    """
    steps, height, width = spikes.shape
    step = spikes.row_step
    size = (len(range(0, height, step)), max(1, width // step))
    picture = shrink(blur, height, width)[::step]
    reference = band_pass(shrink(picture, *size).astype(np.float32) / np.float32(255))
    quarter = steps // 4
    sampled = spikes.sampled
    inner = sampled.picture(quarter, steps - quarter)
    whole = inner + sampled.picture(0, quarter) + sampled.picture(steps - quarter)
    exposure = band_pass(shrink(whole, *size))
    likeness = correlation(exposure, reference)
    contrast = float(exposure.std())
    if contrast == 0:
        return NOTHING
    noise = COUNTING_NOISE / contrast**2

    def other(window: NDArray[np.float32], count: int) -> OtherLength | None:
        other_likeness = correlation(band_pass(shrink(window, *size)), reference)
        if max(other_likeness, likeness) < MIN_LIKENESS:
            return None
        lead = other_likeness - likeness - noise
        return OtherLength(count, other_likeness, lead, steps, likeness)

    shorter = other(inner, steps - 2 * quarter)
    if not sides:
        return Lengths(shorter, None)
    wider = whole
    count = steps
    for side in sides:
        wider = wider + side.sampled.picture()
        count += len(side)
    return Lengths(shorter, other(wider, count))


def length_faults(place: str, lengths: Sequence[Lengths]) -> list[str]:
    """Return faults of the length of a sequence's exposures, at most one.

    Args:
        place: the spikes of the first exposure, for the message.
        lengths: lengths of its exposures.
    """
    shorter = [pair.shorter for pair in lengths if pair.shorter is not None]
    longer = [pair.longer for pair in lengths if pair.longer is not None]
    for name, others in (("shorter", shorter), ("longer", longer)):
        if len(others) < MIN_EXPOSURES or median(other.gain for other in others) <= MIN_GAIN:
            continue
        likeness = median(other.likeness for other in others)
        exposure_likeness = median(other.exposure_likeness for other in others)
        return [
            f"{place}: the blurry frames fit {others[0].steps} steps around the middle of their "
            f"exposures better than the {others[0].exposure} of the exposures (correlation "
            f"{likeness:.3f} instead of {exposure_likeness:.3f}, median of {len(others)} frames): "
            f"the shutter was open for a {name} time; correct start and stop in exposures.csv"
        ]
    return []
