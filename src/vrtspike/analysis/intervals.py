"""Confidence intervals of means over the sequences of a test split."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

MIN_SEQUENCES = 5
"""Minimum number of sequences for an interval: with fewer, it says little."""
CONFIDENCE_LEVEL = 0.95
METHOD = (
    f"{100 * CONFIDENCE_LEVEL:.0f} % interval by Student's t over sequences; none for fewer than "
    f"{MIN_SEQUENCES} sequences"
)


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> tuple[float, float]:
    """Compute the weighted mean of the values of sequences, and its standard error.

    Args:
        values: (N,), a value of each sequence.
        weights: (N,), weights of the sequences in the mean, such as their numbers of frames.

    Returns:
        the mean, NaN without any value, and its standard error, NaN for a single value and for a
        mean that is not finite.

    >>> weighted_mean([1.0, 3.0], [30, 10])
    (1.5, 0.75)
    """
    sample = np.asarray(values, float)
    count = len(sample)
    if count == 0:
        return math.nan, math.nan
    sizes = np.asarray(weights, float)
    mean = float(np.average(sample, weights=sizes))
    if count == 1 or not math.isfinite(mean):
        return mean, math.nan
    shares = sizes / sizes.sum()
    squares = float(((shares * (sample - mean)) ** 2).sum())
    return mean, math.sqrt(count / (count - 1) * squares)


def interval_of_mean(values: ArrayLike, weights: ArrayLike) -> tuple[float, float] | None:
    """Compute the confidence interval of a weighted mean over sequences.

    Frames of a sequence depend on each other, so that a sequence is one observation. The interval
    is Student's t, with the standard error of :func:`weighted_mean`. For normal values, intervals
    of 5 to 11 sequences contain the true mean in 95 % of cases, those of a percentile bootstrap in
    83 to 91 %.

    Args:
        values: (N,), a value of each sequence, finite.
        weights: (N,), weights as for :func:`weighted_mean`.

    Returns:
        the ends of the interval of level :data:`CONFIDENCE_LEVEL`; None with fewer than
        :data:`MIN_SEQUENCES` sequences.

    >>> interval_of_mean([2.0] * 6, [1.0] * 6)
    (2.0, 2.0)
    >>> interval_of_mean([2.0, 3.0], [1.0, 1.0])
    """
    # Imported here, because SciPy's statistics take a second.
    from scipy.stats import t

    count = len(np.asarray(values))
    if count < MIN_SEQUENCES:
        return None
    mean, error = weighted_mean(values, weights)
    half = float(t.ppf((1 + CONFIDENCE_LEVEL) / 2, count - 1)) * error
    return mean - half, mean + half
