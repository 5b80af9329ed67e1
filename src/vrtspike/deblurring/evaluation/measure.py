"""Metrics of restored and blurry frames, collected into tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pandas as pd
from numpy.typing import NDArray

from vrtspike.deblurring.metrics.metric import ImageMetric, MotionScore, Score
from vrtspike.deblurring.metrics.psnr import PSNR
from vrtspike.io.files import finite_or_null
from vrtspike.system.cpus import available_cpus

KEYS = ["protocol", "sequence", "frame"]

Kind = Literal["blur", "restored", "spikes", "sharp", "gray"]
FrameImages = Mapping[Kind, NDArray[Any]]
"""What is compared of one frame, all (H, W, 3) RGB of one size and uint8, but for a result that a
protocol does not round: the blurry input, the model's output, the sharp frame; where there are
spikes what these show, and the sharp frame in grey."""

REFERENCES: Mapping[Kind, Kind] = {"blur": "sharp", "restored": "sharp", "spikes": "gray"}
"""What is measured against what."""

Scores = Mapping[ImageMetric, Score | MotionScore]
"""What measures each metric, in the order of columns."""

Mean = Literal["frames", "sequences"]
"""What the figure of a test set is the mean over."""


def columns_of(metric: ImageMetric) -> dict[Kind, str]:
    """Columns of the tables by what is measured."""
    return dict(zip(REFERENCES, (*metric.columns, metric.spikes_column), strict=True))


class ClipMeter:
    """Measures the frames of one clip, in order, every figure of a frame in a thread.

    Args:
        scores: what is measured, and how.
    """

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._threads = ThreadPoolExecutor(available_cpus())
        self._before: FrameImages | None = None

    def measure(self, images: FrameImages) -> dict[str, float]:
        """Every metric of the next frame.

        Args:
            images: the same kinds for every frame of a clip.

        Returns:
            by column of the tables; NaN where a temporal metric has no frame before this one.
        """
        before, self._before = self._before, images

        def figure(score: Score | MotionScore, kind: Kind) -> float:
            reference = REFERENCES[kind]
            if not isinstance(score, MotionScore):
                return score(images[kind], images[reference])
            if before is None:
                return math.nan
            motion, true = (score.motion(before[k], images[k]) for k in (kind, reference))
            return score.distance(motion, true)

        figures = {
            column: self._threads.submit(figure, score, kind)
            for metric, score in self._scores.items()
            for kind, column in columns_of(metric).items()
            if kind in images
        }
        return {column: found.result() for column, found in figures.items()}


def sequence_means(frames: pd.DataFrame) -> pd.DataFrame:
    """Mean over the frames of each sequence that have a figure, with their number in ``frames``.

    One row for each protocol and sequence.
    """
    columns = [name for name in frames.columns if name not in KEYS]
    groups = frames.groupby([key for key in KEYS if key != "frame"], sort=False)
    means = groups[columns].mean()
    means.insert(0, "frames", groups.size())
    return means.reset_index()


def mean_and_error(values: pd.Series, frames: pd.Series, mean: Mean) -> tuple[float, float]:
    """A figure of a test set and its standard error, both from those of the sequences.

    Args:
        values: of each sequence, means over its frames.
        frames: of each sequence.
        mean: whether every frame counts alike, or every sequence.

    Returns:
        the mean, and how far it would scatter with other sequences; NaN for a single one.

    >>> mean_and_error(pd.Series([1.0, 3.0]), pd.Series([30, 10]), "sequences")
    (2.0, 1.0)
    >>> mean_and_error(pd.Series([1.0, 3.0]), pd.Series([30, 10]), "frames")
    (1.5, 0.75)
    """
    known = values.notna()
    values, frames = values[known], frames[known]
    weights = (frames if mean == "frames" else frames.clip(1, 1)) / 1.0
    weights /= weights.sum()
    found, count = float((weights * values).sum()) if len(values) else math.nan, len(values)
    if count < 2 or not math.isfinite(found):
        return found, math.nan
    squares = float(((weights * (values - found)) ** 2).sum())
    return found, math.sqrt(count / (count - 1) * squares)


def overall_means(
    sequences: pd.DataFrame, metrics: Iterable[ImageMetric], mean: Mean = "sequences"
) -> dict[str, dict[str, float | str | None]]:
    """Means over some sequences.

    Args:
        sequences: rows of one protocol from :func:`sequence_means`.
        metrics: those that were measured.
        mean: whether every frame counts alike, or every sequence.

    Returns:
        by metric ``blurry``, ``restored``, ``gain`` (by how much the restored frames are better
        than the blurry ones: positive is better, whichever values of the metric are), the standard
        error over sequences of the restored frames, and ``spikes``, what the spikes alone show, if
        they were measured; null, with the ``reason``, where there is no finite number.
    """
    means: dict[str, dict[str, float | str | None]] = {}
    for metric in metrics:
        found = {
            "blurry" if kind == "blur" else kind: mean_and_error(
                sequences[column], sequences["frames"], mean
            )
            for kind, column in columns_of(metric).items()
            if column in sequences
        }
        figures = {kind: value for kind, (value, _) in found.items()}
        figures["restored_error"] = found["restored"][1]
        figures["gain"] = metric.gain(figures["restored"], figures["blurry"])
        entry = means[metric.name] = finite_or_null(figures)
        if math.isnan(figures["blurry"]):
            entry["reason"] = "no sequence has two frames, between which it is measured"
        elif entry["gain"] is None:
            entry["reason"] = "some frames equal the sharp ones: the mean is not finite"
    return means


def ranking_metric(metrics: Sequence[ImageMetric]) -> ImageMetric:
    """What frames are ranked by, from the worst to the best: PSNR, or else the first metric."""
    return PSNR if PSNR in metrics else metrics[0]
