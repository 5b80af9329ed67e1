"""Faults of a sequence's exposures: shifted, cut or too long spike files, and wrong lengths.

A blurry frame is most like the mean of the spikes of its own exposure. If things move, the mean of
half as many steps around the same instant is too sharp, and that of twice as many too blurry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.alignment import center_tolerance
from vrtspike.data.checks.levels import median_and_error
from vrtspike.data.checks.similarity import band_pass, correlation
from vrtspike.data.manifests import SpikesEntry
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.io.images import shrink

# What was measured for these limits: docs/metrics-evidence.md, "Checks of data".
CENTER_PRECISION = 3.0
"""Tolerated error, in steps, of the centre of one exposure, and of the median of a sequence beyond
its uncertainty; a file cut by eight steps is off by 4."""
MIN_CENTERS = 3
"""Minimum number of located exposures for a median that is trusted that far."""
RELIABLE_CORRELATION = 0.8
"""Minimum median correlation of reliable centres; in dark scenes it is 0.75 at most."""
MIN_LIKENESS = 0.9
"""Minimum correlation of the blurry frame with the better of two windows. Below it the pattern of a
noisy sensor decides, which is the same in each window."""
MIN_GAIN = 0.005
"""Minimum lead in correlation of another window, in the median of a sequence, beyond counting
noise; exposures of half the length lead by 0.008 or more."""
COUNTING_NOISE = 0.0066
"""Loss of correlation by counting spikes, times the square of steps times contrast of the rates:
half the product of 1/6, the variance of an integrating pixel's count, and 1/(4 pi), the share that
the band-pass leaves."""
MIN_WIDENING = 0.25
"""Minimum part of an exposure that is recorded before and after it for a longer window."""
MIN_EXPOSURES = 3
"""Minimum number of exposures for a median that is trusted."""


def time_faults(exposures: Sequence[SpikesEntry], *, has_table: bool) -> list[str]:
    """Return faults of sharp frames at other steps than expected.

    A file may have another T than the others of its sequence if its sharp frame lies at the step
    that this T implies.

    Args:
        exposures: entries of the ingest manifest, of the usable frames; none without spikes.
        has_table: true if a table gives the exposures, which may then have any lengths.
    """
    located = []
    correlations = []
    for exposure in exposures:
        if exposure["center"] is not None and exposure["correlation"] is not None:
            located.append((exposure, exposure["center"]))
            correlations.append(exposure["correlation"])
    if not located:
        return []
    offsets = [center - exposure["sharp"] for exposure, center in located]
    offset = median(offsets)
    kinds = Counter((exposure["steps"], exposure["sharp"]) for exposure in exposures)
    (steps, sharp), _ = kinds.most_common(1)[0]
    faults = []
    for exposure, center in located:
        missing = abs(steps - exposure["steps"])
        expected = exposure["sharp"] + offset
        # A cut at either end moves the sharp frame by half of the missing steps; the threshold is
        # half of that.
        is_cut = missing > 0 and abs(center - expected) > min(CENTER_PRECISION, missing / 4)
        if is_cut and not has_table:
            faults.append(
                f"{exposure['path']} holds {exposure['steps']} steps, others {steps}, and "
                f"its sharp frame lies at step {center:.1f}, expected {expected:.1f}: the file is "
                "cut or too long; put the whole recording of this exposure there"
            )
    correlation = median(correlations)
    # In dark or static scenes, a single unreliable centre among several exposures is not evidence.
    if len(located) == 1 < len(exposures) and correlation < RELIABLE_CORRELATION:
        return faults
    tolerance = _offset_tolerance(offsets, correlation, steps)
    if abs(offset) > tolerance:
        faults.append(
            f"the sharp frames lie at step {sharp + offset:.1f} of {steps}, expected "
            f"{sharp:.1f} +- {tolerance:.0f} (median of {len(offsets)} frames): frames and "
            "spike files are shifted against each other, or the files are cut; put the whole "
            "recordings there, or give the sharp instants in exposures.csv"
        )
    return faults


def _offset_tolerance(offsets: Sequence[float], correlation: float, steps: int) -> float:
    """Return steps by which the median of offsets may be off: narrower the better they agree.

    Args:
        offsets: offsets of the located exposures.
        correlation: median correlation of these exposures.
        steps: steps of an exposure.
    """
    tolerance = center_tolerance(steps)
    if len(offsets) < MIN_CENTERS:
        return tolerance
    _, uncertainty = median_and_error(np.array(offsets))
    if correlation < RELIABLE_CORRELATION:
        return float(tolerance + uncertainty)
    return float(min(tolerance, CENTER_PRECISION + uncertainty))


class AlternativeLength(NamedTuple):
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

    @property
    def kind(self) -> Literal["longer", "shorter"]:
        """Length of the window in comparison with the exposure."""
        return "longer" if self.steps > self.exposure else "shorter"


def widening(start: int, steps: int, total: int) -> int:
    """Return the added steps on each side of longer windows; 0 if too few are recorded.

    >>> widening(22, 44, 88), widening(18, 44, 88), widening(4, 44, 88)
    (22, 18, 0)
    """
    available = min(steps // 2, start, total - start - steps)
    return available if available >= MIN_WIDENING * steps else 0


def compare_lengths(
    spikes: PackedSpikes, blur: NDArray[np.uint8], sides: Sequence[PackedSpikes] = ()
) -> list[AlternativeLength]:
    """Compare a blurry frame with the spikes of its exposure, of half of it and of more.

    Args:
        spikes: spikes of the exposure, (T, h, w).
        blur: the blurry frame, grey uint8 (H, W).
        sides: spikes recorded just before and just after the exposure, as many of both.

    Returns:
        the shorter and the longer window, without those that cannot be judged.
    """
    steps, height, width = spikes.shape
    step = spikes.row_stride
    size = (len(range(0, height, step)), max(1, width // step))
    picture = shrink(blur, height, width)[::step]
    reference = band_pass(shrink(picture, *size).astype(np.float32) / np.float32(255))
    quarter = steps // 4
    sampled = spikes.subsampled
    inner = sampled.count_image(quarter, steps - quarter)
    whole = inner + sampled.count_image(0, quarter) + sampled.count_image(steps - quarter)
    exposure = band_pass(shrink(whole, *size))
    likeness = correlation(exposure, reference)
    contrast = float(exposure.std())
    if contrast == 0:
        return []
    noise = COUNTING_NOISE / contrast**2
    windows = [(inner, steps - 2 * quarter)]
    if sides:
        wider = sum((side.subsampled.count_image() for side in sides), start=whole)
        windows.append((wider, steps + sum(map(len, sides))))
    lengths = []
    for window, count in windows:
        other_likeness = correlation(band_pass(shrink(window, *size)), reference)
        if max(other_likeness, likeness) >= MIN_LIKENESS:
            lead = other_likeness - likeness - noise
            lengths.append(AlternativeLength(count, other_likeness, lead, steps, likeness))
    return lengths


def length_faults(location: str, lengths: Sequence[AlternativeLength]) -> list[str]:
    """Return faults of the length of a sequence's exposures, at most one.

    Args:
        location: the spikes of the first exposure, for the message.
        lengths: results of :func:`compare_lengths` for its exposures.
    """
    for kind in ("shorter", "longer"):
        others = [length for length in lengths if length.kind == kind]
        if len(others) < MIN_EXPOSURES or median(other.gain for other in others) <= MIN_GAIN:
            continue
        likeness = median(other.likeness for other in others)
        exposure_likeness = median(other.exposure_likeness for other in others)
        return [
            f"{location}: the blurry frames fit {others[0].steps} steps around the middle of their "
            f"exposures better than the {others[0].exposure} of the exposures (correlation "
            f"{likeness:.3f} instead of {exposure_likeness:.3f}, median of {len(others)} frames): "
            f"the shutter was open for a {kind} time; correct start and stop in exposures.csv"
        ]
    return []
