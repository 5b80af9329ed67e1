"""Are the steps of a spike file in their order?

A pixel of an integrating sensor gathers light between two spikes, so at a rate below 1/2 it hardly
ever fires twice in a row. Shuffled steps lose that: pairs of successive spikes become as frequent
as chance makes them. (Real recordings: 0.000 of that frequency; the same shuffled: 0.99 to 1.03.)
"""

from __future__ import annotations

import numpy as np

from vrtspike.deblurring.data.raw.spikes import Steps
from vrtspike.errors import DataError

MOST_DISORDER = 0.7
"""Disorder above which the steps count as shuffled."""

MIN_PAIRS = 200
"""Pairs that chance must make for a verdict; fewer say nothing."""


def disorder(spikes: Steps) -> float | None:
    """Where the number of successive spikes lies between perfect regularity (0) and chance (1).

    Args:
        spikes: uint8 (T, h, w) of 0 and 1, or packed ones.

    Returns:
        None where there are too few spikes to tell.
    """
    steps = len(spikes)
    total = np.zeros(spikes.shape[1:], np.int32)
    pairs = 0
    # Step by step: all pairs at once would take as much memory as the spikes.
    before = np.zeros(spikes.shape[1:], np.uint8)
    for number in range(steps):
        step = spikes[number]
        total += step
        pairs += int(np.count_nonzero(before & step))
        before = step
    count = total.astype(np.int64)
    by_chance = float((count * (count - 1)).sum()) / steps
    # Even a regular pixel must repeat itself when it fires in more than half of all steps.
    regular = float(np.maximum(2 * count - steps, 0).sum())
    if by_chance - regular < MIN_PAIRS:
        return None
    return (pairs - regular) / (by_chance - regular)


def require_order(spikes: Steps, name: str) -> None:
    """Refuse spikes whose steps are shuffled.

    Raises:
        DataError: naming the file.
    """
    found = disorder(spikes)
    if found is not None and found > MOST_DISORDER:
        raise DataError(
            f"{name}: the spikes follow each other as by chance ({found:.2f} of it; an integrating "
            "sensor stays near 0): the steps of the file are shuffled"
        )
