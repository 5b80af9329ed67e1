"""A term of the loss."""

from __future__ import annotations

from torch import Tensor, nn


class LossTerm(nn.Module):
    """A weighted term of the loss; its distance is :meth:`forward`.

    Args:
        name: name in logs.
        weight: its factor in the sum.
        interval: steps between two computations; the first step has one.
    """

    def __init__(self, name: str, weight: float, interval: int = 1) -> None:
        super().__init__()
        self.name = name
        self.weight = weight
        self.interval = interval

    def forward(self, restored: Tensor, sharp: Tensor) -> Tensor:
        """Return the distance of clips, a scalar.

        Args:
            restored: float32 (B, T, 3, H, W), nominally in [0, 1].
            sharp: the same shape, in [0, 1].
        """
        raise NotImplementedError
