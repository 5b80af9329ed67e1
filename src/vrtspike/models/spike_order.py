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
    _require_another_frame(frames)
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


def mirror_ends(voxels: Tensor) -> Tensor:
    """Add frames at both ends of clips: (B, T, K, h, w) -> (B, T + 2, K, h, w).

    The second frame comes before the first one, and the last but one after the last one, so that
    the frames on either side of a frame are others than itself.

    Raises:
        ConfigError: the clips have one frame.
    """
    _require_another_frame(voxels.shape[1])
    return torch.cat((voxels[:, 1:2], voxels, voxels[:, -2:-1]), dim=1)


def take_neighbours(voxels: Tensor, *, random: bool) -> Tensor:
    """Give each frame the voxels of the frame before or after it.

    A model could learn a fixed choice, and find the frame's motion in spikes that are always as far
    from it. It is therefore drawn for each frame, from PyTorch's generator of the CPU.

    Args:
        voxels: (B, T + 2, K, h, w), with the frames before and after the clip.
        random: draw the choice; else the frame before.

    Returns:
        (B, T, K, h, w).
    """
    before = voxels[:, :-2]
    after = voxels[:, 2:]
    if not random:
        return before
    is_before = torch.rand(before.shape[:2]) < 0.5
    return torch.where(is_before[..., None, None, None].to(voxels.device), before, after)


def _require_another_frame(frames: int) -> None:
    """Refuse clips of one frame.

    Raises:
        ConfigError: with the remedy.
    """
    if frames == 1:
        raise ConfigError(
            "MODEL.SPIKE_ORDER is shuffled: found a clip of 1 frame, expected 2 or more, so that "
            "each frame can be given the spikes of another; restore longer clips (more frames in "
            "a sequence and in TEST.TILE.FRAMES)"
        )
