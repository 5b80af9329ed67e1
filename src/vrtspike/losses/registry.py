"""The registry of the losses: the keys of LOSS and the terms that they switch on.

The caller, the training loop, computes every term in float32 and outside autocast: squares and
roots of small differences vanish in half precision.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from vrtspike.deblurring_settings.losses import LossSettings
from vrtspike.losses.charbonnier import CharbonnierLoss
from vrtspike.losses.lpips import LpipsLoss
from vrtspike.losses.term import LossTerm
from vrtspike.losses.vgg_perceptual import VggLoss

LOSSES: dict[str, Callable[[Any, Path], LossTerm]] = {
    "CHARBONNIER": CharbonnierLoss,
    "VGG_PERCEPTUAL": VggLoss,
    "LPIPS": LpipsLoss,
}
"""Classes of the terms by the keys of :class:`~vrtspike.deblurring_settings.losses.LossSettings`.
They take the settings under that key and the folder of the pretrained backbones."""


def build_loss_terms(settings: LossSettings, weights: Path, device: torch.device) -> list[LossTerm]:
    """Return the terms with a positive weight; backbones are read, verified and put on the device.

    Args:
        settings: weights and parameters of the terms.
        weights: folder of the pretrained backbones.
        device: the device that computes the loss.

    Raises:
        RunError: if weights that a term needs are missing in that folder, or are not the
            published ones.
    """
    return [LOSSES[name](term, weights).to(device) for name, term in settings.active.items()]
