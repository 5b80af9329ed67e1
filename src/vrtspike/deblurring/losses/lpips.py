"""LPIPS as a loss."""

from __future__ import annotations

import torch
from torch import nn

from vrtspike.deblurring.losses.term import Resources, Term
from vrtspike.deblurring.settings.losses import LpipsSettings


class LpipsDistance(nn.Module):
    """LPIPS 0.1 (Zhang et al., CVPR 2018) of clips, averaged over frames.

    Args:
        lpips: maps two (B, 3, H, W) tensors in [-1, 1] to (B, 1, 1, 1).
    """

    def __init__(self, lpips: nn.Module) -> None:
        super().__init__()
        self.lpips = lpips.eval().requires_grad_(False)

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        """The distance of two (..., 3, H, W) tensors in [0, 1], a scalar."""
        x, y = (frames.flatten(0, -4) * 2 - 1 for frames in (restored, sharp))
        distance: torch.Tensor = self.lpips(x, y)
        return distance.mean()


def build_lpips_distance(settings: LpipsSettings, resources: Resources) -> Term:
    """The term ``lpips``.

    Raises:
        DataError: if the backbone's weights are missing, or not the published ones.
    """
    # Imported here: the package is needed by this term alone.
    from vrtspike.deblurring.perceptual import load_lpips_network

    network = load_lpips_network(resources.weights, settings.NET)
    return Term("lpips", settings.WEIGHT, LpipsDistance(network).to(resources.device))
