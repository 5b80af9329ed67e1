"""The task of this project: blurry clips and spikes in, sharp clips out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.batches import Clip, prepare_batch
from vrtspike.data.rgb_images import to_uint8
from vrtspike.data.store.voxels import Statistics
from vrtspike.evaluation.visuals import comparison
from vrtspike.losses.charbonnier import charbonnier
from vrtspike.losses.term import Term
from vrtspike.metrics.metric import ImageMetric, Score
from vrtspike.metrics.psnr import PSNR
from vrtspike.metrics.ssim import SSIM
from vrtspike.monitoring.timing import section

VALIDATION = (PSNR, SSIM)
"""What every validation measures; the first is the main one, which decides what is best."""


class DeblurringTask:
    """Restore clips; the loss is a sum of terms, the metrics are those of 8-bit RGB frames.

    Args:
        statistics: mean and standard deviation of gain x rate; None without spikes.
        terms: of the loss.
        scores: what validation measures, the main metric first.
        teacher: for distillation, called as the model in training.
        teacher_weight: factor of the distance to its output.
    """

    def __init__(
        self,
        statistics: Statistics | None,
        terms: Sequence[Term],
        scores: Mapping[ImageMetric, Score],
        teacher: nn.Module | None = None,
        teacher_weight: float = 1.0,
    ) -> None:
        self.metric = next(iter(scores)).name
        self.lower_is_better = {each.name for each in scores if not each.larger_is_better}
        self._statistics = statistics
        self._terms = terms
        self._scores = scores
        self._teacher, self._teacher_weight = teacher, teacher_weight

    def prepare(self, batch: Any, device: torch.device) -> Clip:  # noqa: ANN401 - from a loader
        """Convert uint8 frames and counts on the device."""
        return prepare_batch(batch, self._statistics, device)

    def forward(self, model: nn.Module, batch: Clip) -> torch.Tensor:
        """The restored clip, (B, T, 3, H, W), nominally in [0, 1]."""
        if self._teacher is not None and torch.is_grad_enabled():
            with torch.no_grad(), section("teacher"):
                batch.guide = self._teacher(batch.blur, batch.own_voxels)
        return model(batch.blur, batch.voxels)

    def losses(self, output: torch.Tensor, batch: Clip, step: int) -> dict[str, torch.Tensor]:
        """The weighted terms that are due in this step."""
        found = {}
        for term in self._terms:
            if step % term.every == 0:
                with section(term.name):
                    found[term.name] = term.weight * term.distance(output, batch.reference)
        if self._teacher is not None and batch.guide is not None:
            with section("distillation"):
                distance = charbonnier(output, batch.guide.float())
                found["distillation"] = self._teacher_weight * distance
        return found

    def metrics(self, output: torch.Tensor, batch: Clip) -> list[dict[str, float]]:
        """The metrics of each clip, averaged over its frames."""
        restored, sharp = to_uint8(output), to_uint8(batch.reference)
        return [
            {
                metric.name: float(np.mean([score(a, b) for a, b in zip(x, y, strict=True)]))
                for metric, score in self._scores.items()
            }
            for x, y in zip(restored, sharp, strict=True)
        ]

    def size(self, batch: Clip) -> tuple[int, int]:
        """Clips and frames."""
        clips, frames = batch.blur.shape[:2]
        return clips, clips * frames

    def pictures(self, output: torch.Tensor, batch: Clip) -> dict[str, NDArray[np.uint8]]:
        """The middle frame of the first clip: blurry, restored, sharp."""
        middle = output.shape[1] // 2
        blur, restored, sharp = (
            to_uint8(frames[0, middle]) for frames in (batch.blur, output, batch.reference)
        )
        return {"restored": comparison(blur, restored, sharp)}
