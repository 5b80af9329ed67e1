"""What a term of the loss is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Distance = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From (restored, sharp), both (B, T, 3, H, W) in [0, 1] and float32, to a scalar."""


@dataclass(frozen=True)
class Term:
    """One weighted term of a loss.

    Attributes:
        name: under which it is logged.
        weight: its factor in the sum.
        distance: how far the restored clips are from the sharp ones.
        every: it is computed in the first step, and then in every so many.
    """

    name: str
    weight: float
    distance: Distance
    every: int = 1
