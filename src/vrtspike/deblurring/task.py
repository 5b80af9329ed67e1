"""The task of this project: blurry clips and spikes in, sharp clips out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.batch import Clip, prepare_batch
from vrtspike.data.store.voxels import Statistics
from vrtspike.deblurring.losses.charbonnier import charbonnier
from vrtspike.deblurring.losses.term import Term
from vrtspike.deblurring.metrics import psnr, ssim, to_uint8
from vrtspike.deblurring.visuals import comparison
from vrtspike.monitoring.timing import section


@dataclass
class PreparedBatch:
    """A batch on the device, and what a teacher makes of it."""

    clip: Clip
    guide: torch.Tensor | None = None

    @property
    def sharp(self) -> torch.Tensor:
        """The reference, (B, T, 3, H, W) in [0, 1]."""
        assert self.clip.sharp is not None, "training clips have sharp frames"
        return self.clip.sharp


@dataclass(frozen=True)
class Teacher:
    """A trained model to learn from.

    Attributes:
        model: called as the one in training.
        weight: factor of the distance to its output.
    """

    model: nn.Module
    weight: float


class DeblurringTask:
    """Restore clips; the loss is a sum of terms, the metrics are PSNR and SSIM on 8-bit RGB.

    Args:
        statistics: mean and standard deviation of gain x rate; None without spikes.
        terms: of the loss.
        teacher: for distillation.
    """

    metric = "psnr"

    def __init__(
        self, statistics: Statistics | None, terms: Sequence[Term], teacher: Teacher | None = None
    ) -> None:
        self._statistics = statistics
        self._terms = terms
        self._teacher = teacher

    def prepare(self, batch: Any, device: torch.device) -> PreparedBatch:  # noqa: ANN401 - from a loader
        """Convert uint8 frames and counts on the device."""
        return PreparedBatch(prepare_batch(batch, self._statistics, device))

    def forward(self, model: nn.Module, batch: PreparedBatch) -> torch.Tensor:
        """The restored clip, (B, T, 3, H, W), nominally in [0, 1]."""
        clip = batch.clip
        if self._teacher is not None and torch.is_grad_enabled():
            with torch.no_grad(), section("teacher"):
                batch.guide = self._teacher.model(clip.blur, clip.voxels)
        output: torch.Tensor = model(clip.blur, clip.voxels)
        return output

    def losses(
        self, output: torch.Tensor, batch: PreparedBatch, step: int
    ) -> dict[str, torch.Tensor]:
        """The weighted terms that are due in this step."""
        found = {}
        for term in self._terms:
            if term.is_due(step):
                with section(term.name):
                    found[term.name] = term.weight * term.distance(output, batch.sharp)
        if self._teacher is not None and batch.guide is not None:
            with section("distillation"):
                distance = charbonnier(output, batch.guide.float())
                found["distillation"] = self._teacher.weight * distance
        return found

    def metrics(self, output: torch.Tensor, batch: PreparedBatch) -> list[dict[str, float]]:
        """PSNR and SSIM of each clip, averaged over its frames."""
        restored, sharp = to_uint8(output), to_uint8(batch.sharp)
        return [
            {
                "psnr": float(np.mean([psnr(a, b) for a, b in zip(x, y, strict=True)])),
                "ssim": float(np.mean([ssim(a, b) for a, b in zip(x, y, strict=True)])),
            }
            for x, y in zip(restored, sharp, strict=True)
        ]

    def size(self, batch: PreparedBatch) -> tuple[int, int]:
        """Clips and frames."""
        clips, frames = batch.clip.blur.shape[:2]
        return clips, clips * frames

    def pictures(self, output: torch.Tensor, batch: PreparedBatch) -> dict[str, NDArray[np.uint8]]:
        """The middle frame of the first clip: blurry, restored, sharp."""
        middle = output.shape[1] // 2
        blur, restored, sharp = (
            to_uint8(frames[0, middle]) for frames in (batch.clip.blur, output, batch.sharp)
        )
        return {"restored": comparison(blur, restored, sharp)}
