"""The frames before and after a clip, and replacements of their voxels where there are none."""

from __future__ import annotations

import torch


def voxel_frames(frames: int, *, neighbors: bool) -> int:
    """Return the number of frames whose voxels come with a clip.

    Args:
        frames: frames of the clip.
        neighbors: the frames before and after count, too (DATA.NEIGHBOURS).

    >>> voxel_frames(3, neighbors=True), voxel_frames(3, neighbors=False)
    (5, 3)
    """
    return frames + 2 if neighbors else frames


def with_neighbors(frames: slice, count: int) -> slice:
    """Return consecutive frames with the one before and the one after, if the sequence has them.

    Args:
        frames: indices of the frames.
        count: frames of the sequence.

    >>> with_neighbors(slice(0, 3), 12), with_neighbors(slice(9, 12), 12)
    (slice(0, 4, None), slice(8, 12, None))
    """
    return slice(max(frames.start - 1, 0), min(frames.stop + 1, count))


def pad_with_means(voxels: torch.Tensor) -> torch.Tensor:
    """Add frames of zero deviation at both ends: (B, T, K, h, w) -> (B, T + 2, K, h, w).

    Each holds in every bin the mean over the bins of the adjacent frame.
    """
    means = voxels.mean(dim=2, keepdim=True).expand_as(voxels)
    return torch.cat((means[:, :1], voxels, means[:, -1:]), dim=1)


def fill_absent_neighbors(voxels: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Replace absent neighbours by those of :func:`pad_with_means`.

    Args:
        voxels: float32 (B, T + 2, K, h, w), including the frames before and after the clip.
        present: bool (B, 2): true if there are spikes of the frame before, and of the one after.
    """
    clip = voxels[:, 1:-1]
    filled = pad_with_means(clip)
    # (B, 1, 1, 1, 1) each: one value for all voxels of a clip.
    before = present[:, 0].reshape(-1, 1, 1, 1, 1)
    after = present[:, 1].reshape(-1, 1, 1, 1, 1)
    first = torch.where(before, voxels[:, :1], filled[:, :1])
    last = torch.where(after, voxels[:, -1:], filled[:, -1:])
    return torch.cat((first, clip, last), dim=1)


def mirrored_order(frames: int, *, before: bool, after: bool) -> list[int]:
    """Return the places that the frames of a clip with neighbours get their spikes from.

    An absent neighbour is replaced by the frame on the other side, so that a frame never neighbours
    itself.

    Args:
        frames: T + 2, both neighbours counted.
        before: true if there are spikes of the frame before the clip.
        after: true if there are spikes of the frame after the clip.

    >>> mirrored_order(5, before=False, after=True)
    [2, 1, 2, 3, 4]
    """
    order = list(range(frames))
    if not before:
        order[0] = 2
    if not after:
        order[-1] = frames - 3
    return order
