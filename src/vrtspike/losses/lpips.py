"""LPIPS with the published weights of a backbone, as a loss."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import nn

from vrtspike.deblurring_settings.losses import LpipsSettings
from vrtspike.io.backbone_weights import BACKBONES, Net, read_backbone
from vrtspike.losses.term import LossTerm


class LpipsDistance(nn.Module):
    """LPIPS 0.1 (Zhang et al., CVPR 2018) of clips, averaged over frames.

    Args:
        lpips: network from :func:`build_lpips`.
    """

    def __init__(self, lpips: nn.Module) -> None:
        super().__init__()
        self.lpips = lpips.eval().requires_grad_(False)

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        """Return the distance of two tensors, a scalar; 0 for equal ones.

        Args:
            restored: (..., 3, H, W) in [0, 1].
            sharp: the same shape.
        """
        x = restored.flatten(0, -4) * 2 - 1
        y = sharp.flatten(0, -4) * 2 - 1
        distance: torch.Tensor = self.lpips(x, y)
        return distance.mean()


def load_lpips_network(weights: str | Path, net: Net) -> nn.Module:
    """LPIPS with the published weights of a backbone; values of different backbones do not compare.

    Args:
        weights: folder with the backbone's file under its published name.
        net: ``alex`` or ``vgg``.

    Raises:
        RunError: if the backbone's file is missing, or is not the published one.
    """
    return build_lpips(read_backbone(weights, BACKBONES[net]), net)


def build_lpips(backbone: dict[str, torch.Tensor], net: Net) -> nn.Module:
    """LPIPS with the linear layers of its package and the given torchvision backbone weights.

    The random numbers of the run stay unchanged.

    Args:
        backbone: state dict of torchvision's AlexNet or VGG-16 (``features.<n>.weight`` ...).
        net: the name of the backbone.

    Returns:
        a module that maps two (B, 3, H, W) tensors in [-1, 1] to (B, 1, 1, 1).
    """
    # Imported here: the package is needed by this term alone.
    import lpips

    with warnings.catch_warnings(), torch.random.fork_rng():
        # The package still uses torchvision's older argument for "without weights".
        warnings.filterwarnings("ignore", category=UserWarning, module="torchvision")
        # pnet_rand keeps the package from downloading; its random backbone is overwritten below.
        model = lpips.LPIPS(net=net, pnet_rand=True, pretrained=True, verbose=False)
    state = {}
    for key in model.net.state_dict():
        # "slice2.3.weight" is layer 3 of the backbone's feature extractor.
        layer = key.split(".", 1)[1]
        state[key] = backbone[f"features.{layer}"]
    model.net.load_state_dict(state)
    return model


class LpipsLoss(LossTerm):
    """The term ``lpips``.

    Raises:
        RunError: if the backbone's weights are missing, or not the published ones.
    """

    def __init__(self, settings: LpipsSettings, weights: Path) -> None:
        super().__init__("lpips", settings.WEIGHT)
        self.distance = LpipsDistance(load_lpips_network(weights, settings.NET))

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        """Return the mean LPIPS of the frames of two clips."""
        distance: torch.Tensor = self.distance(restored, sharp)
        return distance
