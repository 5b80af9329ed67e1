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
        every: it is computed in every so many steps.
    """

    name: str
    weight: float
    distance: Distance
    every: int = 1

    def is_due(self, step: int) -> bool:
        """Whether it counts in the step after ``step`` finished ones.

        >>> term = Term("vgg", 0.1, torch.dist, every=3)
        >>> [step for step in range(7) if term.is_due(step)]
        [0, 3, 6]
        """
        return step % self.every == 0
