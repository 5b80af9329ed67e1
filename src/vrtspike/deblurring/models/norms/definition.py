"""Layer norms as products read them, in PyTorch's operations."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models.layers import SpaceToDepth

EPSILON = 1e-5


def defined_norm(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    beside: Tensor | None,
    dtype: torch.dtype,
    *,
    folded: bool,
) -> tuple[Tensor, Tensor]:
    """The definition of :func:`normalised`, with the norm's ``scale`` and ``shift``."""
    moved = SpaceToDepth()(x) if folded else x
    normed = functional.layer_norm(moved, moved.shape[-1:], scale, shift, EPSILON).to(dtype)
    return x, normed if beside is None else torch.cat((normed, beside.to(dtype)), dim=-1)
