"""A term of the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Distance = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps (restored, sharp), both (B, T, 3, H, W) in [0, 1] and float32, to a scalar."""


@dataclass(frozen=True)
class Term:
    """A weighted term of a loss.

    Attributes:
        name: name in logs.
        weight: its factor in the sum.
        distance: between the restored and the sharp clips.
        interval: steps between two computations; the first step has one.
    """

    name: str
    weight: float
    distance: Distance
    interval: int = 1
