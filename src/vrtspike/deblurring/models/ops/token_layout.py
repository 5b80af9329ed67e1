"""Token layers as their kernels see them: widths of rows, and maps inside of padded maps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from vrtspike.deblurring.models.ops.launch import Options, tile
from vrtspike.deblurring.models.ops.window_attention.windows import WindowGeometry

Sizes = Mapping[str, int]
"""Sizes of the blocks that a program treats, its warps, and the stages of its pipeline."""

EPSILON = 1e-5
"""Of all layer norms: PyTorch's default."""

# Channels of a row, with one more: wider tiles do not fit into the registers of a program.
_WIDEST_TILE = 128
# A product of half types wants rows of a multiple of 16 bytes.
_ALIGNED = 8
_MOST_VALUES = 2**30


def fits(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether the kernels take tokens (B, ..., C): by type, channels and number of values."""
    channels = x.shape[-1]
    # Values of a sample are found by 32 bits, also in its padded map, with less than twice as many.
    reachable = x.numel() < _MOST_VALUES * x.shape[0]
    wide = channels % _ALIGNED or width_with_one(channels) > _WIDEST_TILE
    return x.dtype in (torch.float32, dtype) and reachable and not wide


def width_with_one(channels: int) -> int:
    """Width of rows that hold a one after their channels."""
    return channels + _ALIGNED


Geometries = tuple[WindowGeometry, WindowGeometry | None]
"""Windows of self attention and, where there is any, of mutual attention on the same map."""


class Layout(NamedTuple):
    """How a map lies in the padded map of attention; only frames are padded.

    Attributes:
        tokens: of the map.
        padded: tokens of the padded map.
        width: tokens of a row.
        window: rows and columns of the windows of mutual attention, 1 where there is none.
        shift: rows and columns by which these are shifted.
    """

    tokens: int
    padded: int
    width: int = 1
    window: tuple[int, int] = (1, 1)
    shift: tuple[int, int] = (0, 0)

    @property
    def numbers(self) -> tuple[int, ...]:
        """As kernels take them that know windows."""
        return self.tokens, self.padded, self.width, *self.window, *self.shift


def layout_of(windows: Geometries) -> Layout | None:
    """How the map lies in the padded maps; None unless they are one, with whole rows and columns.

    Self and mutual attention of a clip of one frame have different ones.
    """
    own, mutual = windows
    if own.size[1:] != own.padded[1:] or (mutual and mutual.padded != own.padded):
        return None
    sizes = (math.prod(own.size), math.prod(own.padded), own.size[2])
    if mutual is None:
        return Layout(*sizes)
    (_, *window), (_, *shift) = mutual.window, mutual.shift
    return Layout(*sizes, (window[0], window[1]), (shift[0], shift[1]))


def row_constants(channels: int) -> Options:
    """Compile-time constants that all kernels of projections have."""
    return {"C": channels, "BLOCK_C": tile(width_with_one(channels))}


def tiled_code(code: Tensor, window: WindowGeometry) -> Tensor:
    """The code of each token's place in its (shifted) window, (Hp, Wp, C) for a padded map."""
    (_, height, width), (_, window_h, window_w) = window.padded, window.window
    # Tiling commutes with the cyclic shift.
    return code.roll(window.shift[1:], (0, 1)).repeat(height // window_h, width // window_w, 1)


def add_scaled(x: Tensor, branch: Tensor, keep: Tensor | None) -> Tensor:
    """``x`` plus ``branch`` (B, ...) times the factor (B,) of each sample; 1 without factors.

    ``branch`` is overwritten where the sum has its type: on CPUs fresh memory costs more than the
    sum.
    """
    if keep is not None:
        branch = branch * keep.view(-1, *(1,) * (branch.dim() - 1)).to(branch.dtype)
    return branch.add_(x) if branch.dtype == x.dtype else x + branch
