"""Batches of clips as a model takes them, converted on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from vrtspike.data.clips.neighbors import fill_absent_neighbors
from vrtspike.data.voxels.normalization import Statistics, normalize_counts


@dataclass
class ClipBatch:
    """A batch of clips on the device. B clips of T frames, K bins, H x W pixels.

    Attributes:
        blur: float32 (B, T, 3, H, W), 0 to 1.
        sharp: float32 (B, T, 3, H, W), 0 to 1; None without truth.
        voxels: float32 (B, T, K, h, w): standardised gain x spike rate, at the resolution of the
            spike sensor; (B, T + 2, K, h, w) with DATA.NEIGHBOURS; None without spikes.
        teacher_output: float (B, T, 3, H, W), the restoration of a teacher; None without one, and
            in validation.
    """

    blur: torch.Tensor
    sharp: torch.Tensor | None
    voxels: torch.Tensor | None
    teacher_output: torch.Tensor | None = None

    @property
    def reference(self) -> torch.Tensor:
        """``sharp`` of a clip for training."""
        assert self.sharp is not None, "training clips have sharp frames"
        return self.sharp

    @property
    def own_voxels(self) -> torch.Tensor | None:
        """Voxels of the clip's own frames, (B, T, K, h, w), which every model takes."""
        if self.voxels is None or self.voxels.shape[1] == self.blur.shape[1]:
            return self.voxels
        return self.voxels[:, 1:-1]


def prepare_batch(
    batch: Mapping[str, Any], statistics: Statistics | None, device: torch.device | str
) -> ClipBatch:
    """Move a batch to the device as integers and convert it there.

    Args:
        batch: collated samples of :class:`~vrtspike.data.clips.dataset.ClipDataset`:
            ``blur`` uint8 (B, T, H, W, 3); ``sharp`` like it if there is truth; ``counts`` uint8
            (B, T, K, h, w), ``bin_steps`` uint8 (B, T, K) and ``gain`` float32 (B,) if there are
            spikes; with the spikes of T + 2 frames also ``neighbors`` bool (B, 2), see
            :class:`~vrtspike.data.clips.samples.Sample`.
        statistics: statistics of the training split; None if its data set has no spikes, the spikes
            of the batch are then ignored.
        device: device of the model.
    """
    blur = _to_float(batch["blur"].to(device, non_blocking=True))
    sharp = None
    if batch.get("sharp") is not None:
        sharp = _to_float(batch["sharp"].to(device, non_blocking=True))
    if statistics is None or "counts" not in batch:
        return ClipBatch(blur, sharp, voxels=None)
    counts = batch["counts"].to(device, non_blocking=True)
    steps = batch["bin_steps"].to(device, non_blocking=True)
    gain = batch["gain"].to(device, non_blocking=True)
    voxels = normalize_counts(counts, steps, gain, statistics.mean, statistics.std)
    if counts.shape[1] != blur.shape[1]:
        present = batch["neighbors"].to(device, non_blocking=True)
        voxels = fill_absent_neighbors(voxels, present)
    return ClipBatch(blur, sharp, voxels)


def _to_float(image: torch.Tensor) -> torch.Tensor:
    """uint8 (..., H, W, 3) to float32 (..., 3, H, W) in [0, 1], contiguous."""
    return image.movedim(-1, -3).to(torch.float32, memory_format=torch.contiguous_format) / 255
