"""Windows of a (D, H, W) feature map, in which tokens attend to each other.

Source: shifted windows of Swin (Liu et al., 2021) in three dimensions, as VRT uses them
(Liang et al., 2022, "VRT: A Video Restoration Transformer").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vrtspike.system.rounding import round_up

Size3 = tuple[int, int, int]

MASKED_SCORE = -100.0
"""Added to the score of two tokens in different regions of a window."""
_PARTS = 3
"""Maximum parts of an axis: all but the last window, and the two that meet in that one."""


@dataclass(frozen=True)
class WindowPartition:
    """The n windows of a map, of N tokens each, in a batch of B maps.

    Attributes:
        size: size of the map (D, H, W).
        padded: its size after padding with zeros at the end of each axis to whole windows.
        window: (Wd, Wh, Ww), clipped to the map.
        positions: (n, B, N) int64, of each window's tokens in the flat batch of padded maps.
            Windows with the same mask are neighbours.
        inverse_positions: (B * D * H * W,) int64, of each token of the flat batch of maps in the
            flat windows; the inverse of ``positions``, without padding.
        masks: (g, N, N) float32, -100 for two tokens that do not attend to each other, else 0. The
            first mask is 0 everywhere; at most eight others.
        counts: number of windows with each mask; the first may be 0.
    """

    size: Size3
    padded: Size3
    window: Size3
    positions: Tensor
    inverse_positions: Tensor
    masks: Tensor
    counts: tuple[int, ...]

    def partition(self, x: Tensor) -> Tensor:
        """Return the tokens of all windows: (B, D, H, W, C) -> (n, B, N, C)."""
        tokens = x.flatten(0, 3)
        shape = (*self.positions.shape, tokens.shape[1])
        # Copying tokens to their positions makes the gradient a copy as well, not a scatter-add.
        windows = tokens.new_zeros(self.positions.numel(), tokens.shape[1])
        return windows.index_copy_(0, self.inverse_positions, tokens).view(shape)

    def merge(self, x: Tensor) -> Tensor:
        """Return the map of windows, the inverse of :meth:`partition`.

        Args:
            x: (n, B, N, C).

        Returns:
            (B, D, H, W, C).
        """
        clips = x.shape[1]
        channels = x.shape[3]
        tokens = x.reshape(-1, channels)
        tokens = torch.empty_like(tokens).index_copy_(0, self.positions.flatten(), tokens)
        depth, height, width = self.size
        return tokens.view(clips, *self.padded, channels)[:, :depth, :height, :width]


def _partition(volume: NDArray[np.int64], window: Sequence[int]) -> NDArray[np.int64]:
    """(D, H, W) -> (windows, Wd * Wh * Ww), windows and tokens both in row-major order."""
    depth, height, width = volume.shape
    wd, wh, ww = window
    blocks = volume.reshape(depth // wd, wd, height // wh, wh, width // ww, ww)
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(-1, wd * wh * ww)


def build_windows(
    clips: int, size: Size3, window: Size3, shifted: bool, mutual: bool, device: torch.device
) -> WindowPartition:
    """Divide maps into windows.

    Args:
        clips: B, maps of a batch.
        size: size of a map (D, H, W).
        window: full window (Wd, Wh, Ww). An axis of the map that is not longer than the window is
            one window and is not shifted.
        shifted: shift the windows by half a window, cyclically.
        mutual: always make pairs of frames: a clip of one frame is paired with a frame of zeros, as
            the last frame of an odd clip is.
        device: device of the tensors.
    """
    clipped = [min(length, full) for length, full in zip(size, window, strict=True)]
    if mutual:
        clipped[0] = window[0]
    shifts = [0, 0, 0]
    if shifted:
        for axis in range(3):
            if size[axis] > window[axis]:
                shifts[axis] = window[axis] // 2
    padded = [round_up(length, side) for length, side in zip(size, clipped, strict=True)]
    positions = np.arange(math.prod(padded)).reshape(padded)
    rolled = np.roll(positions, [-shift for shift in shifts], (0, 1, 2))
    tokens = _partition(rolled, clipped)
    regions = _regions(size, padded, clipped, shifts)
    masks, order, counts = _masks(_partition(regions, clipped))
    tokens = tokens[order][:, None]
    starts = np.arange(clips)[:, None] * math.prod(padded)
    tokens_of_clips = tokens + starts
    inverse_positions = np.argsort(tokens_of_clips, axis=None).reshape(clips, *padded)
    depth, height, width = size
    inverse_positions = inverse_positions[:, :depth, :height, :width].flatten()
    # The tensors outlive this pass, which may be a validation pass in inference mode.
    with torch.inference_mode(False):
        return WindowPartition(
            size=size,
            padded=(padded[0], padded[1], padded[2]),
            window=(clipped[0], clipped[1], clipped[2]),
            positions=torch.tensor(tokens_of_clips, device=device),
            inverse_positions=torch.tensor(inverse_positions, device=device),
            masks=torch.tensor(masks, dtype=torch.float32, device=device),
            counts=tuple(counts.tolist()),
        )


def _regions(
    size: Sequence[int], padded: Sequence[int], window: Sequence[int], shifts: Sequence[int]
) -> NDArray[np.int64]:
    """Return the region of each position of a padded map; tokens of different regions are separate.

    Regions are the parts of the map that the cyclic shift has joined, and the frame of zeros beside
    a single frame.

    Args:
        size: size of the map (D, H, W).
        padded: size of the map after padding (D, H, W).
        window: clipped to the map.
        shifts: shifts of the windows along each axis.
    """
    regions = np.zeros(padded, dtype=np.int64)
    for axis in range(3):
        length = padded[axis]
        line = np.zeros(length, dtype=np.int64)
        if shifts[axis]:
            line[length - window[axis] :] = 1
            line[length - shifts[axis] :] = 2
        elif size[axis] < window[axis]:
            line[size[axis] :] = 1
        shape = [1, 1, 1]
        shape[axis] = length
        # A number in base 3 with a digit for each axis: equal only where all digits are.
        regions = regions * _PARTS + line.reshape(shape)
    return regions


def _masks(
    regions: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the masks of windows, see :class:`WindowPartition`.

    Windows of the same pattern of regions have the same mask: at most eight patterns, two along
    each axis.

    Args:
        regions: (n, N), region of each token of the windows.

    Returns:
        the masks (g, N, N); the numbers of the windows (n,), sorted by their masks; the number of
        windows with each mask (g,).
    """
    patterns, pattern_index, counts = np.unique(
        regions - regions[:, :1], axis=0, return_inverse=True, return_counts=True
    )
    if patterns[0].any():
        # The first mask is zero, even if no window has it.
        patterns = np.concatenate((np.zeros_like(patterns[:1]), patterns))
        counts = np.concatenate(([0], counts))
    masks = np.where(patterns[:, :, None] != patterns[:, None, :], MASKED_SCORE, 0.0)
    return masks, np.argsort(pattern_index, kind="stable"), counts


_cached_windows = lru_cache(maxsize=256)(build_windows)


def windows_of(x: Tensor, window: Size3, *, shifted: bool, mutual: bool) -> WindowPartition:
    """Return the windows of maps (B, D, H, W, C), built once; see :func:`build_windows`.

    Tracing replaces tensors by placeholders that must not outlive it: their windows are not kept.
    """
    build = _cached_windows if type(x) is Tensor else build_windows
    clips, depth, height, width = x.shape[:4]
    return build(clips, (depth, height, width), window, shifted, mutual, x.device)
