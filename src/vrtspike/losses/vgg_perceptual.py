"""The perceptual loss: distances of VGG-16 features."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from vrtspike.deblurring_settings.losses import VggSettings
from vrtspike.io.backbone_weights import IMAGENET_MEAN, IMAGENET_STD, VGG16, read_backbone
from vrtspike.losses.term import LossTerm
from vrtspike.system.seeds import mix_seed

RELUS = {
    "relu1_1": 1,
    "relu1_2": 3,
    "relu2_1": 6,
    "relu2_2": 8,
    "relu3_1": 11,
    "relu3_2": 13,
    "relu3_3": 15,
    "relu4_1": 18,
    "relu4_2": 20,
    "relu4_3": 22,
    "relu5_1": 25,
    "relu5_2": 27,
    "relu5_3": 29,
}
"""Positions of the activations among VGG-16's ``features``, by block and place in the block."""


class VggPerceptual(nn.Module):
    """Mean absolute distance of VGG-16 features, summed over layers (Johnson et al., ECCV 2016).

    Args:
        features: features of torchvision's VGG-16; they are frozen.
        layers: names such as ``relu3_3``: block, then position in the block; at least one.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, features: nn.Sequential, layers: tuple[str, ...]) -> None:
        super().__init__()
        ends = sorted({RELUS[layer] + 1 for layer in layers})
        self.slices = nn.ModuleList(features[a:b] for a, b in pairwise([0, *ends]))
        # The features are taken before the in-place activations of the next slice touch them.
        for module in self.modules():
            if isinstance(module, nn.ReLU):
                module.inplace = False
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1))
        self.eval().requires_grad_(False)

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        """Return the distance of two (..., 3, H, W) tensors in [0, 1], a scalar."""
        x = self._normalize(restored)
        y = self._normalize(sharp)
        total = x.new_zeros(())
        for part in self.slices:
            x = part(x)
            y = part(y)
            total = total + (x - y).abs().mean()
        return total

    def _normalize(self, frames: torch.Tensor) -> torch.Tensor:
        return (frames.flatten(0, -4) - self.mean) / self.std


class VggLoss(LossTerm):
    """The term ``vgg``, or ``vgg_random`` with random weights.

    Random weights are the same in every run and leave its random numbers unchanged.

    Raises:
        RunError: if the published weights are needed and missing, or the file has others.
    """

    def __init__(self, settings: VggSettings, weights: Path) -> None:
        # Imported here, because it takes time and most small runs do not need it.
        from torchvision.models import vgg16

        random = settings.WEIGHTS == "random"
        super().__init__("vgg_random" if random else "vgg", settings.WEIGHT, settings.EVERY)
        with torch.random.fork_rng():
            torch.manual_seed(mix_seed(0))
            network = vgg16(weights=None, init_weights=random)
        if not random:
            network.load_state_dict(read_backbone(weights, VGG16))
        self.distance = VggPerceptual(network.features, settings.LAYERS)

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        """Return the distance of the features of two clips."""
        distance: torch.Tensor = self.distance(restored, sharp)
        return distance
