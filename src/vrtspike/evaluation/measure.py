"""Metrics of restored and blurry frames, collected into tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
import torch

from vrtspike.deblurring.metrics.images import Image
from vrtspike.deblurring.metrics.metric import Metric, Score, load_metrics
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.errors import DataError

KEYS = ["sequence", "frame", "scale"]


def select_metrics(
    names: Sequence[str], weights_dir: str, device: torch.device
) -> dict[Metric, Score]:
    """The metrics of TEST.METRICS with their scores.

    Args:
        names: which ones.
        weights_dir: folder of the pretrained backbones (WEIGHTS.DIR).
        device: where those that have a network compute.

    Raises:
        DataError: if weights that one of them needs are missing or not the published ones.
    """
    found: dict[Metric, Score] = {}
    for name in names:
        try:
            found |= load_metrics([METRICS[name]], weights_dir, device)
        except DataError as error:
            raise DataError(
                f"TEST.METRICS names {name}, which cannot be measured: {error}. Without {name} in "
                "TEST.METRICS the evaluation does without it"
            ) from error
    return found


def measure_frame(
    metrics: Mapping[Metric, Score], blur: Image, restored: Image, sharp: Image
) -> dict[str, float]:
    """Each metric of the blurry input and of the restored frame, by :attr:`Metric.columns`."""
    return {
        column: score(image, sharp)
        for metric, score in metrics.items()
        for column, image in zip(metric.columns, (blur, restored), strict=True)
    }


def sequence_means(frames: pd.DataFrame) -> pd.DataFrame:
    """Mean over the frames of each sequence, with their number in ``frames``."""
    columns = [name for name in frames.columns if name not in KEYS]
    groups = frames.groupby(["sequence", "scale"], sort=False)
    means = groups[columns].mean()
    means.insert(0, "frames", groups.size())
    return means.reset_index()


def overall_means(
    sequences: pd.DataFrame, scale: float, metrics: Iterable[Metric]
) -> dict[str, dict[str, float | str | None]]:
    """Mean over the sequences of one scale.

    Args:
        sequences: from :func:`sequence_means`.
        scale: which scale.
        metrics: those that were measured.

    Returns:
        by metric ``blurry``, ``restored`` and ``gain`` (by how much the restored frames are better
        than the blurry ones: positive is better, whichever values of the metric are); null, with
        the ``reason``, where there is no finite number.
    """
    rows = sequences[sequences["scale"] == scale]
    means: dict[str, dict[str, float | str | None]] = {}
    for metric in metrics:
        blurry, restored = (float(rows[column].mean()) for column in metric.columns)
        gain = metric.gain(restored, blurry)
        figures = {"blurry": blurry, "restored": restored, "gain": gain}
        means[metric.name] = {k: v if math.isfinite(v) else None for k, v in figures.items()}
        if not math.isfinite(gain):
            reason = "some frames equal the sharp ones: the mean is not finite"
            means[metric.name]["reason"] = reason
    return means
