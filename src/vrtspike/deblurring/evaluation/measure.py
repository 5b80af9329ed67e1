"""Metrics of restored and blurry frames, collected into tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch

from vrtspike.deblurring.metrics.metric import ImageMetric, MotionScore, Score
from vrtspike.deblurring.metrics.psnr import PSNR
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.deblurring.rgb_images import Image
from vrtspike.errors import ConfigError, DataError

KEYS = ["sequence", "frame", "scale"]
WORST = 5
"""Frames that a summary names."""

Kind = Literal["blur", "restored", "spikes", "sharp", "gray"]
FrameImages = Mapping[Kind, Image]
"""What is compared of one frame, all uint8 (H, W, 3) RGB of one size: the blurry input, the model's
output, the sharp frame; where there are spikes what these show, and the sharp frame in grey."""

REFERENCES: Mapping[Kind, Kind] = {"blur": "sharp", "restored": "sharp", "spikes": "gray"}
"""What is measured against what."""

Scores = Mapping[ImageMetric, Score | MotionScore]
"""What measures each metric, in the order of columns."""

Apply = Callable[[Callable[[Kind], Any], Iterable[Kind]], Iterable[Any]]
"""Calls a function with each of some arguments, and gives what it returns in their order."""


def select_metrics(
    names: Sequence[str], weights_dir: str, device: torch.device
) -> dict[ImageMetric, Score | MotionScore]:
    """The metrics of TEST.METRICS with their scores.

    Args:
        names: which ones.
        weights_dir: folder of the pretrained backbones (WEIGHTS.DIR).
        device: where those that have a network compute.

    Raises:
        DataError: if weights that one of them needs are missing or not the published ones.
    """
    found: dict[ImageMetric, Score | MotionScore] = {}
    for name in names:
        metric = METRICS[name]
        try:
            found[metric] = metric.load(Path(weights_dir), device)
        except DataError as error:
            raise DataError(
                f"TEST.METRICS names {name}, which cannot be measured: {error}. Without {name} in "
                "TEST.METRICS the evaluation does without it"
            ) from error
    return found


def require_size(metrics: Iterable[ImageMetric], clip: str, size: tuple[int, int]) -> None:
    """Refuse metrics that cannot measure frames of this size.

    Raises:
        ConfigError: naming the metric and the clip.
    """
    for metric in metrics:
        if min(size) < metric.least_side:
            raise ConfigError(
                f"TEST.METRICS names {metric.name}, which measures frames of {metric.least_side} x "
                f"{metric.least_side} pixels or more; those of {clip} have {size[0]} x {size[1]}. "
                f"Leave {metric.name} out, or the scale in TEST.EVAL_SCALES"
            )


class ClipMeter:
    """Measures the frames of one clip, in order.

    Args:
        scores: what is measured, and how.
        apply: as ``map``, for the images of a frame; one of a thread pool measures them at once.
    """

    def __init__(self, scores: Scores, apply: Apply = map) -> None:
        self._scores = scores
        self._apply = apply
        self._before: FrameImages | None = None

    def measure(self, images: FrameImages) -> dict[str, float]:
        """Every metric of the next frame.

        Args:
            images: the same kinds for every frame of a clip.

        Returns:
            by column of the tables (:func:`column`); NaN where a temporal metric has no frame
            before this one.
        """
        found = {
            column(metric, kind): figure
            for metric, score in self._scores.items()
            for kind, figure in self._figures(score, images).items()
        }
        self._before = images
        return found

    def _figures(self, score: Score | MotionScore, images: FrameImages) -> dict[Kind, float]:
        pairs = {kind: reference for kind, reference in REFERENCES.items() if kind in images}
        before = self._before
        if not isinstance(score, MotionScore):
            figures = self._apply(lambda kind: score(images[kind], images[pairs[kind]]), pairs)
            return dict(zip(pairs, figures, strict=True))
        if before is None:
            return dict.fromkeys(pairs, math.nan)
        found = self._apply(lambda kind: score.motion(before[kind], images[kind]), images)
        motions = dict(zip(images, found, strict=True))
        return {
            kind: score.distance(motions[kind], motions[other]) for kind, other in pairs.items()
        }


def column(metric: ImageMetric, kind: Kind) -> str:
    """The column of tables that holds a metric of blurry, restored or spikes' frames."""
    blur, restored = metric.columns
    return {"blur": blur, "restored": restored, "spikes": metric.spikes_column}[kind]


def sequence_means(frames: pd.DataFrame) -> pd.DataFrame:
    """Mean over the frames of each sequence that have a figure, with their number in ``frames``."""
    columns = [name for name in frames.columns if name not in KEYS]
    groups = frames.groupby(["sequence", "scale"], sort=False)
    means = groups[columns].mean()
    means.insert(0, "frames", groups.size())
    return means.reset_index()


def overall_means(
    sequences: pd.DataFrame, scale: float, metrics: Iterable[ImageMetric]
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
        if math.isnan(blurry):
            means[metric.name]["reason"] = (
                "no sequence has two frames, between which it is measured"
            )
        elif not math.isfinite(gain):
            reason = "some frames equal the sharp ones: the mean is not finite"
            means[metric.name]["reason"] = reason
    return means


def spikes_means(
    sequences: pd.DataFrame, scale: float, metrics: Iterable[ImageMetric]
) -> dict[str, float | None]:
    """Mean over the sequences of one scale of what the spikes alone show, by metric.

    Args:
        sequences: from :func:`sequence_means`, of a data set with spikes.
        scale: which scale.
        metrics: those that were measured.

    Returns:
        null where there is no finite number.
    """
    rows = sequences[sequences["scale"] == scale]
    means = {metric.name: float(rows[metric.spikes_column].mean()) for metric in metrics}
    return {name: mean if math.isfinite(mean) else None for name, mean in means.items()}


def ranking_metric(metrics: Sequence[ImageMetric]) -> ImageMetric:
    """What frames are ranked by, from the worst to the best: PSNR, or else the first metric."""
    return PSNR if PSNR in metrics else metrics[0]


def worst_frames(
    frames: pd.DataFrame, scale: float, metrics: Sequence[ImageMetric]
) -> list[dict[str, str | float]]:
    """The restored frames of one scale with the worst figures, the worst first.

    Args:
        frames: a row per frame.
        scale: which scale.
        metrics: those that were measured.

    Returns:
        at most :data:`WORST`, each with ``sequence``, ``frame`` and the metric they are ranked by
        (:func:`ranking_metric`); frames that equal the sharp ones are none.
    """
    metric = ranking_metric(metrics)
    rows = frames[(frames["scale"] == scale) & frames[metric.name].map(math.isfinite)]
    ordered = rows.sort_values(metric.name, ascending=metric.larger_is_better, kind="stable")
    return [
        {"sequence": str(name), "frame": str(frame), metric.name: float(figure)}
        for name, frame, figure in ordered[["sequence", "frame", metric.name]]
        .head(WORST)
        .to_numpy()
    ]
