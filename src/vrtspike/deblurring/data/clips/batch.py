"""From stored integers to a model's inputs, once, on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from vrtspike.deblurring.data.store.voxels import Statistics, normalize_counts


@dataclass
class Clip:
    """A batch of clips on the device. B clips of T frames, K bins, H x W pixels."""

    blur: torch.Tensor
    """float32 (B, T, 3, H, W), 0 to 1."""
    sharp: torch.Tensor | None
    """float32 (B, T, 3, H, W), 0 to 1; None where there is no truth."""
    voxels: torch.Tensor | None
    """float32 (B, T, K, h, w): standardised gain x spike rate, at the resolution of the spike
    sensor; None where there are no spikes."""
    guide: torch.Tensor | None = None
    """What a teacher restores, where there is one."""

    @property
    def reference(self) -> torch.Tensor:
        """``sharp`` of a clip for training."""
        assert self.sharp is not None, "training clips have sharp frames"
        return self.sharp


def prepare_batch(
    batch: Mapping[str, Any], statistics: Statistics | None, device: torch.device | str
) -> Clip:
    """Move a batch to the device as integers and convert it there.

    Args:
        batch: collated samples of :class:`~vrtspike.deblurring.data.clips.clips.ClipDataset`:
            ``blur`` uint8 (B, T, H, W, 3); ``sharp`` like it where there is one; ``counts`` uint8
            (B, T, K, h, w), ``bin_steps`` uint8 (B, T, K) and ``gain`` float32 (B,) where there
            are spikes.
        statistics: of the training split; None where its data set has no spikes, the batch's are
            then left aside.
        device: where the model is.
    """
    device = torch.device(device)
    blur = batch["blur"].to(device, non_blocking=True)
    sharp = batch.get("sharp")
    voxels = None
    if statistics is not None and "counts" in batch:
        counts, steps, gain = (
            batch[name].to(device, non_blocking=True) for name in ("counts", "bin_steps", "gain")
        )
        voxels = normalize_counts(counts, steps, gain, statistics.mean, statistics.std)
    return Clip(
        blur=_to_float(blur),
        sharp=None if sharp is None else _to_float(sharp.to(device, non_blocking=True)),
        voxels=voxels,
    )


def _to_float(image: torch.Tensor) -> torch.Tensor:
    """uint8 (..., H, W, 3) to float32 (..., 3, H, W) in [0, 1], contiguous."""
    return image.movedim(-1, -3).to(torch.float32, memory_format=torch.contiguous_format) / 255
