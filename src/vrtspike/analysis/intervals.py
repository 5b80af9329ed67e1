"""Confidence intervals of means over the sequences of a test split."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

MIN_SEQUENCES = 5
"""Minimum number of sequences for an interval: with fewer, resamples repeat each other."""
RESAMPLES = 9999
CONFIDENCE_LEVEL = 0.95
_SEED = 0
_BATCH = 500
"""Resamples that are drawn at once, which bounds the memory."""
METHOD = (
    f"{100 * CONFIDENCE_LEVEL:.0f} % percentile bootstrap over sequences, {RESAMPLES:,} resamples "
    f"with a fixed seed; none for fewer than {MIN_SEQUENCES} sequences"
)


def interval_of_mean(values: ArrayLike, weights: ArrayLike) -> tuple[float, float] | None:
    """Compute the confidence interval of a weighted mean over sequences.

    Frames of a sequence depend on each other, so that whole sequences are resampled. Source:
    Efron, Tibshirani, An introduction to the bootstrap, 1993, chapter 13.

    Args:
        values: (N,), a value of each sequence, finite.
        weights: (N,), weights of the sequences in the mean, such as their numbers of frames.

    Returns:
        the ends of the interval of level :data:`CONFIDENCE_LEVEL`, the same at every call; None
        with fewer than :data:`MIN_SEQUENCES` sequences.

    >>> interval_of_mean([2.0] * 6, [1.0] * 6)
    (2.0, 2.0)
    >>> interval_of_mean([2.0, 3.0], [1.0, 1.0])
    """
    # Imported here, because SciPy's statistics take a second.
    from scipy.stats import bootstrap

    sample = np.asarray(values, float)
    if len(sample) < MIN_SEQUENCES:
        return None
    result = bootstrap(
        (sample, np.asarray(weights, float)),
        lambda x, w, axis: np.average(x, axis=axis, weights=w),
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=_BATCH,
        confidence_level=CONFIDENCE_LEVEL,
        method="percentile",
        random_state=np.random.default_rng(_SEED),
    )
    low, high = result.confidence_interval
    return float(low), float(high)
