"""Batches of clips as a model takes them, converted on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vrtspike.data.clips.neighbors import fill_absent_neighbors
from vrtspike.data.clips.samples import BinnedSpikes, Sample
from vrtspike.data.voxels.normalization import VoxelStatistics, normalize_counts


@dataclass
class ClipBatch:
    """A batch of clips on the device. B clips of T frames, K bins, H x W pixels.

    Attributes:
        blur: float32 (B, T, 3, H, W), 0 to 1.
        sharp: float32 (B, T, 3, H, W), 0 to 1.
        voxels: float32 (B, T, K, h, w): standardised gain x spike rate, at the resolution of the
            spike sensor; (B, T + 2, K, h, w) with DATA.NEIGHBOURS; None without spikes.
        teacher_output: float (B, T, 3, H, W), the restoration of a teacher; None without one, and
            in validation.
    """

    blur: torch.Tensor
    sharp: torch.Tensor
    voxels: torch.Tensor | None
    teacher_output: torch.Tensor | None = None

    @property
    def own_voxels(self) -> torch.Tensor | None:
        """Voxels of the clip's own frames, (B, T, K, h, w), which every model takes."""
        if self.voxels is None or self.voxels.shape[1] == self.blur.shape[1]:
            return self.voxels
        return self.voxels[:, 1:-1]


def prepare_batch(
    batch: Sample, statistics: VoxelStatistics | None, device: torch.device | str
) -> ClipBatch:
    """Move a batch to the device as integers and convert it there.

    Args:
        batch: stacked samples.
        statistics: statistics of the training split; None if its data set has no spikes, the spikes
            of the batch are then ignored.
        device: device of the model.
    """
    blur, voxels = model_inputs(batch.blur, batch.spikes, statistics, device)
    sharp = unit_frames(batch.sharp.to(device, non_blocking=True))
    return ClipBatch(blur, sharp, voxels)


def model_inputs(
    blur: torch.Tensor,
    spikes: BinnedSpikes | None,
    statistics: VoxelStatistics | None,
    device: torch.device | str,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Move the frames and spikes of a batch to the device as they were read and convert them there.

    Args:
        blur: uint8 (B, T, H, W, 3), or float32 from 0 to 255.
        spikes: spikes of these T frames, or of T + 2, one more on either side; None without.
        statistics: statistics of the training split; None ignores the spikes.
        device: device of the model.

    Returns:
        the frames, float32 (B, T, 3, H, W) from 0 to 1; and the voxels, float32 (B, T, K, h, w) or
        (B, T + 2, K, h, w), standardised: None without spikes.
    """
    frames = unit_frames(blur.to(device, non_blocking=True))
    if statistics is None or spikes is None:
        return frames, None
    spikes = BinnedSpikes(*(tensor.to(device, non_blocking=True) for tensor in spikes))
    voxels = normalize_counts(
        spikes.counts, spikes.bin_steps, spikes.gain, statistics.mean, statistics.std
    )
    if voxels.shape[1] != frames.shape[1]:
        voxels = fill_absent_neighbors(voxels, spikes.has_neighbors)
    return frames, voxels


def unit_frames(frames: torch.Tensor) -> torch.Tensor:
    """Convert frames to the input of a model.

    Args:
        frames: (..., H, W, 3), 0 to 255.

    Returns:
        float32 (..., 3, H, W), 0 to 1, contiguous.
    """
    return frames.movedim(-1, -3).to(torch.float32, memory_format=torch.contiguous_format) / 255
