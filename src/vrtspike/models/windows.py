"""Windows of a (D, H, W) feature map: which tokens attend to which.

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
from torch.nn import functional

Size3 = tuple[int, int, int]

MASKED_SCORE = -100.0
"""Added to the score of two tokens that lie in different regions of a window."""


@dataclass(frozen=True)
class Windows:
    """The n windows of a map, of N tokens each, in a batch of B maps.

    Attributes:
        size: of the map (D, H, W).
        padded: its size after padding with zeros at the end of each axis to whole windows.
        window: (Wd, Wh, Ww), clipped to the map.
        positions: (n, B, N) int64, of each window's tokens in the flat batch of padded maps.
            Windows with the same mask are neighbours.
        masks: (g, N, N) float32, -100 where two tokens do not see each other, else 0; there are at
            most eight.
        counts: how many windows have each mask.
    """

    size: Size3
    padded: Size3
    window: Size3
    positions: Tensor
    masks: Tensor
    counts: tuple[int, ...]

    def partition(self, x: Tensor) -> Tensor:
        """The tokens of all windows: (B, D, H, W, C) -> (n, B, N, C)."""
        depth, height, width = (p - s for p, s in zip(self.padded, self.size, strict=True))
        tokens = functional.pad(x, (0, 0, 0, width, 0, height, 0, depth)).flatten(0, 3)
        return tokens.index_select(0, self.positions.flatten()).view(*self.positions.shape, -1)

    def merge(self, x: Tensor) -> Tensor:
        """The map of windows, the inverse of :meth:`partition`: (n, B, N, C) -> (B, D, H, W, C)."""
        clips, channels = x.shape[1], x.shape[3]
        tokens = x.reshape(-1, channels)
        tokens = torch.empty_like(tokens).index_copy(0, self.positions.flatten(), tokens)
        depth, height, width = self.size
        return tokens.view(clips, *self.padded, channels)[:, :depth, :height, :width]


def _partition(volume: NDArray[np.int64], window: Sequence[int]) -> NDArray[np.int64]:
    """(D, H, W) -> (windows, Wd * Wh * Ww), windows and tokens both in row-major order."""
    (depth, height, width), (wd, wh, ww) = volume.shape, window
    blocks = volume.reshape(depth // wd, wd, height // wh, wh, width // ww, ww)
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(-1, wd * wh * ww)


def build_windows(
    clips: int, size: Size3, window: Size3, shifted: bool, mutual: bool, device: torch.device
) -> Windows:
    """Divide maps into windows.

    Args:
        clips: B, maps of a batch.
        size: of a map (D, H, W).
        window: full window (Wd, Wh, Ww). An axis of the map no longer than the window's is one
            window and is not shifted.
        shifted: shift the windows by half a window, cyclically.
        mutual: windows are pairs of frames in any case: a clip of one frame is paired with a frame
            of zeros, as the last frame of an odd clip is.
        device: of the tensors.
    """
    lengths = list(zip(size, window, strict=True))
    used = [min(pair) for pair in lengths]
    if mutual:
        used[0] = window[0]
    shift = [w // 2 if shifted and s > w else 0 for s, w in lengths]
    padded = [math.ceil(s / u) * u for s, u in zip(size, used, strict=True)]
    positions = np.arange(math.prod(padded)).reshape(padded)
    tokens = _partition(np.roll(positions, [-s for s in shift], (0, 1, 2)), used)
    # Regions that the cyclic shift has joined, and the frame of zeros beside a single one.
    regions = np.zeros(padded, dtype=np.int64)
    for axis, (length, part, moved) in enumerate(zip(padded, used, shift, strict=True)):
        line = np.zeros(length, dtype=np.int64)
        if moved:
            line[length - part :] = 1
            line[length - moved :] = 2
        elif size[axis] < part:
            line[size[axis] :] = 1
        regions = regions * 3 + line.reshape([-1 if a == axis else 1 for a in range(3)])
    # Windows of the same pattern have the same mask: at most eight patterns, two along each axis.
    patterns = _partition(regions, used)
    patterns, kind, counts = np.unique(
        patterns - patterns[:, :1], axis=0, return_inverse=True, return_counts=True
    )
    masks = np.where(patterns[:, :, None] != patterns[:, None, :], MASKED_SCORE, 0.0)
    tokens = tokens[np.argsort(kind, kind="stable")][:, None]
    starts = np.arange(clips)[:, None] * math.prod(padded)
    # They outlive the pass that made them, also a validation pass in inference mode.
    with torch.inference_mode(False):
        return Windows(
            size=size,
            padded=(padded[0], padded[1], padded[2]),
            window=(used[0], used[1], used[2]),
            positions=torch.tensor(tokens + starts, device=device),
            masks=torch.tensor(masks, dtype=torch.float32, device=device),
            counts=tuple(counts.tolist()),
        )


_remembered_windows = lru_cache(maxsize=256)(build_windows)


def windows_of(x: Tensor, window: Size3, *, shifted: bool, mutual: bool) -> Windows:
    """The windows of maps (B, D, H, W, C), built once; see :func:`build_windows`.

    Tracing makes stand-ins for tensors that must not outlive it: their windows are not kept.
    """
    build = _remembered_windows if type(x) is Tensor else build_windows
    clips, *size = x.shape[:4]
    return build(clips, (size[0], size[1], size[2]), window, shifted, mutual, x.device)
