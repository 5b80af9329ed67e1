"""LPIPS with weights that were checked, or a reason why there is no figure."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import lpips
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.deblurring.backbones import read_backbone

Net = Literal["alex", "vgg"]

BACKBONES: dict[Net, str] = {"alex": "alexnet-owt-7be5be79.pth", "vgg": "vgg16-397923af.pth"}
"""File name of torchvision's ImageNet weights for each LPIPS backbone."""


@dataclass(frozen=True)
class Missing:
    """A metric that cannot be computed here, and why."""

    reason: str


class Lpips:
    """Learned perceptual distance of two frames (Zhang et al., CVPR 2018), version 0.1."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model = model.to(device).eval()
        self._device = device

    @torch.inference_mode()
    def __call__(self, restored: NDArray[np.uint8], sharp: NDArray[np.uint8]) -> float:
        """Distance of two uint8 (H, W, 3) RGB frames; 0 for equal ones, lower is better."""
        return float(self._model(self._tensor(restored), self._tensor(sharp)))

    def _tensor(self, image: NDArray[np.uint8]) -> torch.Tensor:
        """(H, W, 3) in 0..255 to (1, 3, H, W) in [-1, 1], which LPIPS expects."""
        values = torch.from_numpy(np.ascontiguousarray(image)).to(self._device)
        return values.permute(2, 0, 1)[None].float() / 127.5 - 1


def load_lpips(weights_dir: str | Path, device: torch.device, net: Net = "alex") -> Lpips | Missing:
    """LPIPS with ImageNet weights from ``weights_dir``; nothing is ever downloaded.

    Args:
        weights_dir: folder with the backbone's file under its published name.
        device: where to compute.
        net: the backbone; figures of different backbones are not comparable.

    Returns:
        the metric, or :class:`Missing` where the file is not there.

    Raises:
        DataError: if a file of that name is there but is not the published one.
    """
    path = Path(weights_dir) / BACKBONES[net]
    if not path.is_file():
        return Missing(
            f"{path} is not there; `snakemake --cores 1 weights` fetches and verifies it"
        )
    return Lpips(load_lpips_network(weights_dir, net), device)


def load_lpips_network(weights_dir: str | Path, net: Net) -> nn.Module:
    """:func:`build_lpips` with the published weights of a backbone.

    Raises:
        DataError: if the backbone's file is missing, or is not the published one.
    """
    return build_lpips(read_backbone(weights_dir, BACKBONES[net]), net)


def build_lpips(backbone: dict[str, torch.Tensor], net: Net) -> nn.Module:
    """LPIPS with the linear layers of its package and the given torchvision backbone weights.

    Args:
        backbone: state dict of torchvision's AlexNet or VGG-16 (``features.<n>.weight`` ...).
        net: which of the two.

    Returns:
        a module that maps two (B, 3, H, W) tensors in [-1, 1] to (B, 1, 1, 1).
    """
    with warnings.catch_warnings():
        # The package still uses torchvision's older spelling of "without weights".
        warnings.filterwarnings("ignore", category=UserWarning, module="torchvision")
        # pnet_rand keeps the package from downloading; its random backbone is overwritten below.
        model = lpips.LPIPS(net=net, pnet_rand=True, pretrained=True, verbose=False)
    own = model.net.state_dict()
    # "slice2.3.weight" is layer 3 of the backbone's feature extractor.
    model.net.load_state_dict({key: backbone[f"features.{key.split('.', 1)[1]}"] for key in own})
    return model
