"""Faults of the times of a sequence's exposures: shifted, cut or too long spike files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from vrtspike.data.gate.alignment import center_tolerance
from vrtspike.data.gate.levels import STANDARD_ERROR
from vrtspike.data.manifests import SpikesEntry

CENTER_PRECISION = 3.0
"""Steps by which the centre of one exposure may be missed; half a source frame less (a file cut by
eight steps) is 4. The median offset of a sequence may be as large, beyond its uncertainty: measured
were 0.0 to 2.1 in generated data of many kinds, 0.4 in real spikes."""
MIN_CENTERS = 3
"""Minimum number of located exposures for a median that is trusted that far."""
RELIABLE_CORRELATION = 0.8
"""Median correlation from which centres are reliable: 0.9 and more in most data. In dark scenes few
spikes leave 0.4 to 0.75, and single centres are off by up to 28 steps, medians by up to 11."""


def time_faults(exposures: Sequence[SpikesEntry], *, has_table: bool) -> list[str]:
    """Return faults of sharp frames at other steps than expected.

    A file may have another T than the others of its sequence if its sharp frame lies at the step
    that this T implies.

    Args:
        exposures: entries of the ingest manifest, of the usable frames; none without spikes.
        has_table: true if a table gives the exposures, which may then have any lengths.
    """
    located = [
        (exposure, exposure["center"]) for exposure in exposures if exposure["center"] is not None
    ]
    if not located:
        return []
    offsets = [center - exposure["sharp"] for exposure, center in located]
    offset = median(offsets)
    kinds = Counter((exposure["steps"], exposure["sharp"]) for exposure in exposures)
    (steps, sharp), _ = kinds.most_common(1)[0]
    faults = []
    if not has_table:
        faults += [
            f"{exposure['path']} holds {exposure['steps']} spike frames, others {steps}, and its "
            f"sharp frame lies at step {center:.1f}, expected "
            f"{exposure['sharp'] + offset:.1f}: the file is cut or too long; put the whole "
            "recording of this exposure there"
            for exposure, center in located
            if _is_cut(exposure, center, steps, offset)
        ]
    correlation = median(_correlation(exposure) for exposure, _ in located)
    # In dark or static scenes, a single unreliable centre among several exposures is no evidence.
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


def _correlation(exposure: SpikesEntry) -> float:
    """Return the correlation of an exposure with a centre, which always has one."""
    correlation = exposure["correlation"]
    assert correlation is not None
    return correlation


def _is_cut(exposure: SpikesEntry, center: float, steps: int, offset: float) -> bool:
    """Return whether a file of another length than the others was cut or is too long.

    Args:
        exposure: exposure with a centre.
        center: step at which the spikes fit the sharp frame best.
        steps: steps of most exposures.
        offset: median of the centres less their expected places.
    """
    missing = abs(steps - exposure["steps"])
    if missing == 0:
        return False
    distance = abs(center - exposure["sharp"] - offset)
    # A cut at either end moves the sharp frame by half of the missing steps; the threshold is half
    # of that.
    return bool(distance > min(CENTER_PRECISION, missing / 4))


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
    center = median(offsets)
    deviation = median(abs(offset - center) for offset in offsets)
    uncertainty = 2 * STANDARD_ERROR * deviation / len(offsets) ** 0.5
    if correlation < RELIABLE_CORRELATION:
        return float(tolerance + uncertainty)
    return float(min(tolerance, CENTER_PRECISION + uncertainty))
