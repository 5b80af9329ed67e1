"""The Charbonnier loss: absolute differences, smooth about zero."""

from __future__ import annotations

from pathlib import Path

import torch

from vrtspike.deblurring_settings.losses import CharbonnierSettings
from vrtspike.losses.term import LossTerm


def charbonnier(restored: torch.Tensor, sharp: torch.Tensor, delta: float = 1e-3) -> torch.Tensor:
    """Return the mean of ``sqrt(x^2 + delta^2)`` over all values (Charbonnier et al., ICIP 1994).

    Args:
        restored: any shape.
        sharp: the same shape.
        delta: size of the differences at which the loss turns from quadratic to linear.

    Returns:
        a scalar; ``delta`` for equal inputs.

    >>> charbonnier(torch.full((2, 3), 3.0), torch.zeros(2, 3), delta=4.0)
    tensor(5.)
    """
    return ((restored - sharp).square() + delta * delta).sqrt().mean()


class CharbonnierLoss(LossTerm):
    """The term ``charbonnier``."""

    def __init__(self, settings: CharbonnierSettings, weights: Path) -> None:
        super().__init__("charbonnier", settings.WEIGHT)
        self.delta = settings.DELTA

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        """Return the Charbonnier distance of two clips."""
        return charbonnier(restored, sharp, self.delta)
