"""Window geometry: which tokens of a (D, H, W) feature map attend to which.

A :class:`WindowPlan` names, for every window, the flat positions of its tokens in the map, so that
an attention implementation gathers rows once and needs no roll, partition or permutation. All of
it is a pure function of sizes; nothing here touches features.

Source: shifted windows of Swin (Liu et al., 2021) in three dimensions, as VRT uses them
(Liang et al., 2022, "VRT: A Video Restoration Transformer").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Size3 = tuple[int, int, int]

MASKED_SCORE = -100.0
"""Added to the score of two tokens that lie in different regions of a shifted window."""


@dataclass(frozen=True)
class WindowGeometry:
    """The window that is really used on a map, and the padding it asks for.

    Attributes:
        size: map size (D, H, W) before padding.
        window: window (Wd, Wh, Ww) after clipping to the map.
        shift: cyclic shift in every axis; zero where the window was clipped.
        padded: map size after padding at the end of each axis to multiples of ``window``.
        mutual: windows hold two frames and attend to each other's frame.
    """

    size: Size3
    window: Size3
    shift: Size3
    padded: Size3
    mutual: bool = False

    @property
    def tokens(self) -> int:
        """Tokens in one window."""
        return math.prod(self.window)

    @property
    def pad(self) -> tuple[int, ...]:
        """Argument of ``torch.nn.functional.pad`` for a (B, D, H, W, C) tensor, C first."""
        depth, height, width = (p - s for p, s in zip(self.padded, self.size, strict=True))
        return (0, 0, 0, width, 0, height, 0, depth)


def clip_window(size: Size3, window: Size3, *, shifted: bool, mutual: bool) -> WindowGeometry:
    """Clip a window to a map: an axis of the map no longer than the window's is one window.

    Args:
        size: map size (D, H, W).
        window: full window (Wd, Wh, Ww).
        shifted: whether the windows are shifted by half a window where they are not clipped.
        mutual: mutual attention pairs two frames, so its time axis is never clipped below two; a
            clip of one frame is paired with a frame of zeros, as the last frame of an odd clip is.
    """
    used = [min(s, w) for s, w in zip(size, window, strict=True)]
    if mutual:
        used[0] = window[0]
    shift = [w // 2 if shifted and s > w else 0 for s, w in zip(size, window, strict=True)]
    padded = [math.ceil(s / w) * w for s, w in zip(size, used, strict=True)]
    return WindowGeometry(
        size=size,
        window=(used[0], used[1], used[2]),
        shift=(shift[0], shift[1], shift[2]),
        padded=(padded[0], padded[1], padded[2]),
        mutual=mutual,
    )


@dataclass(frozen=True)
class WindowPlan:
    """Token positions of every attention problem on one padded map.

    With n problems of N tokens each (for mutual attention two problems per window, one for each
    direction, of half the window's tokens):

    Attributes:
        geometry: the windows this plan is for.
        query: (n, N) int64, flat positions in the padded map whose queries take part.
        key: (n, N), positions whose keys and values take part.
        out: (n, N), positions that receive the result.
        masks: (g, N, N) float32, -100 where two tokens do not see each other, else 0. The problems
            are ordered by their mask; there are at most eight on a map.
        bounds: g + 1 numbers; mask i is that of problems ``bounds[i]`` to ``bounds[i + 1] - 1``.
    """

    geometry: WindowGeometry
    query: Tensor
    key: Tensor
    out: Tensor
    masks: Tensor
    bounds: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens in one attention problem."""
        return self.query.shape[1]


def _partition(volume: NDArray[np.int64], window: Size3) -> NDArray[np.int64]:
    """(D, H, W) -> (windows, Wd * Wh * Ww), windows and tokens both in row-major order."""
    (depth, height, width), (wd, wh, ww) = volume.shape, window
    blocks = volume.reshape(depth // wd, wd, height // wh, wh, width // ww, ww)
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(-1, wd * wh * ww)


def _regions(geometry: WindowGeometry) -> NDArray[np.int64]:
    """Region number of every token of the shifted map; the cyclic roll joins foreign borders."""
    ids = np.zeros(geometry.padded, dtype=np.int64)
    for axis, (length, window, shift) in enumerate(
        zip(geometry.padded, geometry.window, geometry.shift, strict=True)
    ):
        line = np.zeros(length, dtype=np.int64)
        if shift:
            line[length - window :] = 1
            line[length - shift :] = 2
        ids = ids * 3 + line.reshape([-1 if a == axis else 1 for a in range(3)])
    return ids


def build_plan(geometry: WindowGeometry, device: torch.device) -> WindowPlan:
    """The plan of a geometry, its tensors on ``device``."""
    positions = np.arange(math.prod(geometry.padded), dtype=np.int64).reshape(geometry.padded)
    tokens = _partition(
        np.roll(positions, [-s for s in geometry.shift], (0, 1, 2)), geometry.window
    )
    regions = _partition(_regions(geometry), geometry.window)
    query, key, out = tokens, tokens, tokens
    if geometry.mutual:
        half = geometry.tokens // 2
        first, second = tokens[:, :half], tokens[:, half:]
        # Queries of the second frame look at the first and fill the first half, and vice versa.
        # Both use the mask of the first frame, as the published weights were trained with it.
        query = np.concatenate([second, first])
        key = out = np.concatenate([first, second])
        regions = np.concatenate([regions[:, :half]] * 2)
    # Windows of the same pattern have the same mask: at most eight patterns, two along each axis.
    regions = regions - regions[:, :1]
    _, first_of, pattern = np.unique(regions, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(pattern.reshape(-1), kind="stable")
    bounds = np.cumsum([0, *np.bincount(pattern.reshape(-1))]).tolist()
    kinds = regions[first_of]
    masks = np.where(kinds[:, :, None] != kinds[:, None, :], MASKED_SCORE, 0.0)
    # Plans outlive the pass that made them, also a validation pass in inference mode.
    with torch.inference_mode(False):
        queries, keys, outs = (
            torch.tensor(rows[order], device=device) for rows in (query, key, out)
        )
        mask = torch.tensor(masks, dtype=torch.float32, device=device)
        return WindowPlan(geometry, queries, keys, outs, mask, tuple(bounds))


_remembered_plan = lru_cache(maxsize=256)(build_plan)


def plan_for(geometry: WindowGeometry, x: Tensor) -> WindowPlan:
    """The plan of a geometry on the device of ``x``, built once.

    Tracing makes stand-ins for tensors that must not outlive it: their plans are not kept.
    """
    build = _remembered_plan if type(x) is Tensor else build_plan
    return build(geometry, x.device)
