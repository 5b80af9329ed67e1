"""Check the order of the steps of spikes.

A pixel of an integrating sensor gathers light between two spikes, so at a rate below 1/2 it hardly
ever fires twice in a row. In shuffled steps, pairs of successive spikes are as frequent as by
chance. (Real recordings: 0.000 of that frequency; the same shuffled: 0.99 to 1.03.)
"""

from __future__ import annotations

import numpy as np

from vrtspike.data.raw.packed import PackedSpikes

MAX_DISORDER = 0.7
"""Disorder above which the steps count as shuffled."""

MIN_PAIRS = 200
"""Minimum number of pairs by chance for a verdict."""


def disorder(spikes: PackedSpikes) -> float | None:
    """Return how often spikes follow each other directly: 0 if perfectly regular, 1 by chance.

    None if there are too few spikes.
    """
    steps = len(spikes)
    rows = spikes.subsampled.rows
    count = spikes.subsampled.count_image().astype(np.int64)
    pairs = int.from_bytes((rows[1:] & rows[:-1]).tobytes()).bit_count()
    by_chance = float((count * (count - 1)).sum()) / steps
    # Even a regular pixel must repeat itself when it fires in more than half of all steps.
    regular = float(np.maximum(2 * count - steps, 0).sum())
    if by_chance - regular < MIN_PAIRS:
        return None
    return (pairs - regular) / (by_chance - regular)


def order_fault(value: float | None, name: str) -> str | None:
    """Return the fault of spikes whose steps are shuffled; None for any other spikes.

    Args:
        value: their :func:`disorder`.
        name: name of the spikes in the message.
    """
    if value is None or value <= MAX_DISORDER:
        return None
    return (
        f"{name}: the spikes follow each other as by chance ({value:.2f} of it; an integrating "
        "sensor stays near 0): the steps are shuffled, or the sensor has another size"
    )
