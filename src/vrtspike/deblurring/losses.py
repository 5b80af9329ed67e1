"""Losses of restored frames: Charbonnier, VGG features, LPIPS.

Every term is computed in float32 and outside autocast by whoever calls it (the training loop does);
squares and roots of small differences vanish in half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from vrtspike.config.train_schema import LossSettings
from vrtspike.errors import ConfigError
from vrtspike.pretrained import BACKBONES, VGG16, verify_weights
from vrtspike.training.seeding import mix_seed

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Distance = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Term:
    """One weighted term of a loss.

    Attributes:
        name: under which it is logged.
        weight: its factor in the sum.
        distance: from (restored, sharp) to a scalar.
        every: it is computed in every so many steps.
    """

    name: str
    weight: float
    distance: Distance
    every: int = 1

    def is_due(self, step: int) -> bool:
        """Whether it counts in the step after ``step`` finished ones."""
        return step % self.every == 0


def charbonnier(restored: torch.Tensor, sharp: torch.Tensor, delta: float = 1e-3) -> torch.Tensor:
    """Mean of ``sqrt(x^2 + delta^2)`` over all values (Charbonnier et al., ICIP 1994).

    Args:
        restored: any shape.
        sharp: the same shape.
        delta: where the loss turns from quadratic to linear.

    Returns:
        a scalar; ``delta`` for equal inputs.
    """
    return ((restored - sharp).square() + delta * delta).sqrt().mean()


class Perceptual(nn.Module):
    """Mean absolute distance of VGG-16 features, summed over layers (Johnson et al., ECCV 2016).

    Args:
        vgg: torchvision's VGG-16; only its ``features`` are kept, frozen.
        layers: names such as ``relu3_3``: block, then position in the block.

    Raises:
        ConfigError: if a layer is not one of VGG-16's.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, vgg: nn.Module, layers: tuple[str, ...]) -> None:
        super().__init__()
        features = vgg.features
        assert isinstance(features, nn.Sequential)
        known = dict(_relu_layers(features))
        for layer in layers:
            if layer not in known:
                raise ConfigError(
                    f"LOSS.VGG_PERCEPTUAL.LAYERS names {layer!r}; VGG-16 has {', '.join(known)}"
                )
        ends = sorted({known[layer] + 1 for layer in layers})
        self.slices = nn.ModuleList(features[a:b] for a, b in pairwise([0, *ends]))
        # The features are taken before the in-place activations of the next slice touch them.
        for module in self.modules():
            if isinstance(module, nn.ReLU):
                module.inplace = False
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1))
        self.eval().requires_grad_(False)

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        """The distance of two (..., 3, H, W) tensors in [0, 1], a scalar."""
        x, y = self._normalise(restored), self._normalise(sharp)
        total = x.new_zeros(())
        for part in self.slices:
            x, y = part(x), part(y)
            total = total + (x - y).abs().mean()
        return total

    def _normalise(self, frames: torch.Tensor) -> torch.Tensor:
        return (frames.flatten(0, -4) - self.mean) / self.std


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


def build_terms(settings: LossSettings, weights_dir: str, device: torch.device) -> list[Term]:
    """The terms with a positive weight; backbones are read, verified and put on the device.

    Raises:
        DataError: if a term needs weights that are not in ``weights_dir`` or not the published
            ones.
        ConfigError: if a named layer does not exist.
    """
    terms = []
    pixel, vgg, lpips = settings.CHARBONNIER, settings.VGG_PERCEPTUAL, settings.LPIPS
    if pixel.WEIGHT:

        def distance(restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
            return charbonnier(restored, sharp, pixel.DELTA)

        terms.append(Term("charbonnier", pixel.WEIGHT, distance))
    if vgg.WEIGHT:
        model = Perceptual(_vgg16(weights_dir, vgg.WEIGHTS == "random"), vgg.LAYERS).to(device)
        name = "vgg" if vgg.WEIGHTS == "pretrained" else "vgg_random"
        terms.append(Term(name, vgg.WEIGHT, model, vgg.EVERY))
    if lpips.WEIGHT:
        # Imported here: the package is needed by this term alone.
        from vrtspike.deblurring.perceptual import build_lpips

        backbone = _published(weights_dir, BACKBONES[lpips.NET])
        network = LpipsDistance(build_lpips(backbone, lpips.NET)).to(device)
        terms.append(Term("lpips", lpips.WEIGHT, network))
    return terms


def _vgg16(weights_dir: str, random: bool) -> nn.Module:
    # Imported here: it takes time and most small runs do not need it.
    from torchvision.models import vgg16

    if not random:
        state = _published(weights_dir, VGG16)
        model: nn.Module = vgg16(weights=None, init_weights=False)
        model.load_state_dict(state)
        return model
    with torch.random.fork_rng():
        torch.manual_seed(mix_seed(0))
        random_model: nn.Module = vgg16(weights=None)
        return random_model


def _published(weights_dir: str, name: str) -> dict[str, torch.Tensor]:
    path = Path(weights_dir) / name
    verify_weights(path)
    state: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _relu_layers(features: nn.Sequential) -> Iterator[tuple[str, int]]:
    """Names and positions of the activations of a VGG network."""
    block, place = 1, 0
    for index, module in enumerate(features):
        if isinstance(module, nn.ReLU):
            place += 1
            yield f"relu{block}_{place}", index
        elif isinstance(module, nn.MaxPool2d):
            block, place = block + 1, 0
