"""Means over frames and sequences, and their standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from vrtspike.analysis.intervals import weighted_mean
from vrtspike.evaluation.measure import KEYS, ImageKind, columns_of
from vrtspike.evaluation.protocols import MeanUnit
from vrtspike.io.files import finite_or_null
from vrtspike.metrics.metric import ImageMetric
from vrtspike.metrics.psnr import PSNR


def sequence_means(frames: pd.DataFrame) -> pd.DataFrame:
    """Return the means over the frames of each sequence that have a value.

    The result has a row for each protocol and sequence, with the number of frames in ``frames``.
    """
    columns = [name for name in frames.columns if name not in KEYS]
    groups = frames.groupby([key for key in KEYS if key != "frame"], sort=False)
    means = groups[columns].mean()
    means.insert(0, "frames", groups.size())
    return means.reset_index()


def mean_and_error(values: pd.Series, frames: pd.Series, mean: MeanUnit) -> tuple[float, float]:
    """Return the mean of a test set and its standard error, both from the means of its sequences.

    Args:
        values: values of each sequence, means over its frames; NaN for a sequence without a value.
        frames: number of frames of each sequence.
        mean: ``frames`` gives every frame the same weight, ``sequences`` every sequence.

    Returns:
        the mean, NaN without any value, and its standard error over sequences, NaN for a single
        one.

    >>> mean_and_error(pd.Series([1.0, 3.0]), pd.Series([30, 10]), "sequences")
    (2.0, 1.0)
    >>> mean_and_error(pd.Series([1.0, 3.0]), pd.Series([30, 10]), "frames")
    (1.5, 0.75)
    """
    has_value = values.notna().to_numpy()
    present = values.to_numpy(float)[has_value]
    weights = frames.to_numpy(float)[has_value] if mean == "frames" else np.ones(len(present))
    return weighted_mean(present, weights)


def overall_means(
    sequences: pd.DataFrame, metrics: Iterable[ImageMetric], mean: MeanUnit = "sequences"
) -> dict[str, dict[str, float | str | None]]:
    """Return means over the sequences of a test set.

    Args:
        sequences: rows of one protocol from :func:`sequence_means`.
        metrics: metrics whose columns the rows have.
        mean: as for :func:`mean_and_error`.

    Returns:
        by metric ``blurry``, ``restored``, ``gain`` (improvement of the restored frames over the
        blurry ones, positive for better frames with any metric), ``restored_error``, the standard
        error over sequences of the restored frames, and ``spikes``, the mean of the pictures from
        spikes alone, if they were measured; null, with the ``reason``, instead of a number that is
        not finite.
    """
    means: dict[str, dict[str, float | str | None]] = {}
    for metric in metrics:
        numbers: dict[str, float] = {}
        errors: dict[ImageKind, float] = {}
        for kind, column in columns_of(metric).items():
            if column in sequences:
                average, error = mean_and_error(sequences[column], sequences["frames"], mean)
                numbers[kind] = average
                errors[kind] = error
        numbers["restored_error"] = errors["restored"]
        numbers["gain"] = metric.gain(numbers["restored"], numbers["blurry"])
        entry: dict[str, float | str | None] = finite_or_null(numbers)
        if math.isnan(numbers["blurry"]):
            entry["reason"] = "no sequence has two frames, between which it is measured"
        elif entry["gain"] is None:
            entry["reason"] = "some frames equal the sharp ones: the mean is not finite"
        means[metric.name] = entry
    return means


def ranking_metric(metrics: Sequence[ImageMetric]) -> ImageMetric:
    """Return the metric that ranks frames: PSNR if it is measured, or else the first one."""
    return PSNR if PSNR in metrics else metrics[0]
