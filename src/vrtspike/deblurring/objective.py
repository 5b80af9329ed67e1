"""The objective of deblurring: blurry clips and spikes in, sharp clips out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.batches import ClipBatch, prepare_batch
from vrtspike.data.clips.samples import Sample
from vrtspike.data.rgb_images import to_uint8
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.evaluation.comparison_pictures import comparison
from vrtspike.losses.charbonnier import charbonnier
from vrtspike.losses.term import LossTerm
from vrtspike.metrics.metric import ImageMetric, MetricFunction
from vrtspike.monitoring.timing import section
from vrtspike.training.objectives import Objective


class DeblurringObjective(Objective):
    """Objective of the restoration: a loss of several terms, and metrics of 8-bit RGB frames.

    Args:
        statistics: mean and standard deviation of gain x rate; None without spikes.
        terms: terms of the loss.
        metric_functions: functions of the validation's metrics, the main one first.
        teacher: model for distillation, called like the trained model.
        teacher_weight: factor of the distance to the teacher's output.

    Raises:
        ValueError: if a metric compares neighbouring frames; a validation measures single ones.
    """

    def __init__(
        self,
        statistics: VoxelStatistics | None,
        terms: Sequence[LossTerm],
        metric_functions: Mapping[ImageMetric, MetricFunction],
        teacher: nn.Module | None = None,
        teacher_weight: float = 1.0,
    ) -> None:
        temporal = [metric.name for metric in metric_functions if metric.measures_motion]
        if temporal:
            raise ValueError(f"{', '.join(temporal)}: expected metrics of single frames")
        self.metric = next(iter(metric_functions)).name
        self.lower_is_better = {
            metric.name for metric in metric_functions if not metric.larger_is_better
        }
        self._statistics = statistics
        self._terms = terms
        self._metric_functions = metric_functions
        self._teacher = teacher
        self._teacher_weight = teacher_weight

    def prepare(self, batch: Sample, device: torch.device) -> ClipBatch:
        """Convert uint8 frames and counts on the device."""
        return prepare_batch(batch, self._statistics, device)

    def add_targets(self, batch: ClipBatch) -> ClipBatch:
        """Add the teacher's restoration, if there is a teacher."""
        if self._teacher is None:
            return batch
        with torch.no_grad(), section("teacher"):
            restored = self._teacher(batch.blur, batch.own_voxels)
        return replace(batch, teacher_output=restored)

    def forward(self, model: nn.Module, batch: ClipBatch) -> torch.Tensor:
        """Restore a clip: (B, T, 3, H, W), nominally in [0, 1]."""
        return model(batch.blur, batch.voxels)

    def losses(self, output: torch.Tensor, batch: ClipBatch, step: int) -> dict[str, torch.Tensor]:
        """Compute the weighted terms that are due in this step.

        Args:
            output: restored clips, (B, T, 3, H, W).
            batch: batch from :meth:`add_targets`.
            step: finished optimiser steps.
        """
        terms = {}
        for term in self._terms:
            if step % term.interval == 0:
                with section(term.name):
                    terms[term.name] = term.weight * term(output, batch.sharp)
        if batch.teacher_output is not None:
            with section("distillation"):
                distance = charbonnier(output, batch.teacher_output.float())
                terms["distillation"] = self._teacher_weight * distance
        return terms

    def metrics(self, output: torch.Tensor, batch: ClipBatch) -> list[dict[str, float]]:
        """Compute the metrics of each clip, averaged over its frames."""
        restored = to_uint8(output)
        sharp = to_uint8(batch.sharp)
        return [self._clip_metrics(*clips) for clips in zip(restored, sharp, strict=True)]

    def _clip_metrics(
        self, restored: NDArray[np.uint8], sharp: NDArray[np.uint8]
    ) -> dict[str, float]:
        """Compute the metrics of one clip, averaged over its frames.

        Args:
            restored: restored frames, (T, H, W, 3).
            sharp: sharp frames of the same shape.
        """
        means = {}
        for metric, function in self._metric_functions.items():
            values = [function(frame, truth) for frame, truth in zip(restored, sharp, strict=True)]
            means[metric.name] = float(np.mean(values))
        return means

    def batch_counts(self, batch: ClipBatch) -> tuple[int, int]:
        """Return the numbers of clips and of frames."""
        clips, frames = batch.blur.shape[:2]
        return clips, clips * frames

    def pictures(self, output: torch.Tensor, batch: ClipBatch) -> dict[str, NDArray[np.uint8]]:
        """Return the middle frame of the first clip: blurry, restored, sharp."""
        middle = output.shape[1] // 2
        blur = to_uint8(batch.blur[0, middle])
        restored = to_uint8(output[0, middle])
        sharp = to_uint8(batch.sharp[0, middle])
        return {"restored": comparison(blur, restored, sharp)}
