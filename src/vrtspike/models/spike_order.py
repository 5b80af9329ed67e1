"""Shuffled spikes: the control that tests if their time matters."""

from __future__ import annotations

import torch
from torch import Tensor

from vrtspike.system.errors import ConfigError


def derangements(clips: int, frames: int, *, random: bool) -> Tensor:
    """Return a permutation of the frames of each clip in which no frame keeps its place.

    The frames of a clip form a ring, and each takes the one before it, so that none takes itself.
    A random ring is drawn for each clip from PyTorch's generator of the CPU, which is the same on
    every device. The fixed order moves all frames by half a clip: as in random rings, most spikes
    come from beyond the neighbours.

    Args:
        clips: B.
        frames: T.
        random: draw the rings.

    Returns:
        (B, T) int64 on the CPU, frame numbers from 0 to T - 1.

    Raises:
        ConfigError: a clip of one frame has no other.
    """
    if frames == 1:
        raise ConfigError(
            "MODEL.SPIKE_ORDER is shuffled: found a clip of 1 frame, expected 2 or more, so that "
            "each frame can be given the spikes of another; restore longer clips (more frames in "
            "a sequence and in TEST.TILE.FRAMES)"
        )
    if not random:
        return torch.arange(frames).roll(frames // 2).expand(clips, frames)
    ring = torch.rand(clips, frames).argsort(dim=1)
    return torch.empty_like(ring).scatter_(1, ring, ring.roll(1, dims=1))


def shuffle_frames(voxels: Tensor, *, random: bool) -> Tensor:
    """Give each frame the voxels of another frame of its clip.

    Args:
        voxels: (B, T, K, h, w).
        random: draw the order, see :func:`derangements`.

    Returns:
        (B, T, K, h, w).

    Raises:
        ConfigError: the clips have one frame.
    """
    clips, frames = voxels.shape[:2]
    order = derangements(clips, frames, random=random).to(voxels.device)
    return voxels[torch.arange(clips, device=voxels.device)[:, None], order]
