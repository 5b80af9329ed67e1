"""The registry of the losses: the keys of LOSS and the terms that they switch on.

The caller, the training loop, computes every term in float32 and outside autocast: squares and
roots of small differences vanish in half precision.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vrtspike.losses.charbonnier import build_charbonnier
from vrtspike.losses.lpips import build_lpips_distance
from vrtspike.losses.term import Term
from vrtspike.losses.vgg_perceptual import build_vgg_perceptual
from vrtspike.settings.losses import LossSettings

LOSSES: dict[str, Callable[[Any, Path], Term]] = {
    "CHARBONNIER": build_charbonnier,
    "VGG_PERCEPTUAL": build_vgg_perceptual,
    "LPIPS": build_lpips_distance,
}
"""Functions that build a term, by the keys of :class:`~vrtspike.settings.losses.LossSettings`, from
the settings under that key and the folder of the pretrained backbones."""


def build_terms(settings: LossSettings, weights: Path, device: torch.device) -> list[Term]:
    """Return the terms with a positive weight; backbones are read, verified and put on the device.

    Args:
        settings: weights and parameters of the terms.
        weights: folder of the pretrained backbones.
        device: the device that computes the loss.

    Raises:
        RunError: if weights that a term needs are missing in that folder, or are not the
            published ones.
    """
    terms = [LOSSES[name](term, weights) for name, term in settings.active.items()]
    for term in terms:
        if isinstance(term.distance, nn.Module):
            term.distance.to(device)
    return terms
