"""Cost of a training step of a preset, counted on tensors without data.

Types are those of autocast on a CPU; attention recomputes its scores, as with
``MODEL.VRT.ATTENTION: recompute``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.losses.charbonnier import charbonnier
from vrtspike.models import build_model
from vrtspike.monitoring.step_cost import StepCost, count_step
from vrtspike.training.precision import Precision

if TYPE_CHECKING:
    from vrtspike.settings import Settings

_RATIO = 2
"""Ratio of the sides of frame and spike sensor in pixels, as in most recordings."""


def step_cost(settings: Settings, side: int) -> StepCost:
    """Count memory and arithmetic of a micro-step of one clip; no device memory is allocated.

    The spike sensor has half the size of the frames.

    Args:
        settings: settings of the preset.
        side: side of the crops in pixels.
    """
    frames = settings.DATA.CLIP_LEN
    bins = settings.DATA.NUM_VOXEL_BINS
    vrt = settings.MODEL.VRT.model_copy(update={"ATTENTION": "recompute"})
    recomputing = settings.MODEL.model_copy(update={"VRT": vrt})
    with FakeTensorMode(allow_non_fake_inputs=True), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = build_model(settings.model_copy(update={"MODEL": recomputing}), pretrained=False)
        precision = Precision(settings.TRAIN, torch.device("cpu"))
        precision.prepare(model)
        blur = torch.empty(1, frames, 3, side, side)
        voxels = torch.empty(1, frames, bins, side // _RATIO, side // _RATIO)

        def loss() -> Tensor:
            with precision.autocast():
                restored = model(blur, voxels).float()
            return charbonnier(restored, torch.zeros_like(restored))

        return count_step(model, (blur, voxels), loss)
