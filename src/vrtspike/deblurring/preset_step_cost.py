"""Cost of a training step of a preset, counted on tensors without data.

Types are those of autocast on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.losses.charbonnier import charbonnier
from vrtspike.models import build_model
from vrtspike.models.parallel_warping import MAX_SAMPLED_CUDA, DeformableAlignment
from vrtspike.monitoring.step_cost import StepCost, Traffic, count_step, count_traffic
from vrtspike.training.precision import Precision

if TYPE_CHECKING:
    from vrtspike.settings import Settings

_RATIO = 2
"""Ratio of the sides of frame and spike sensor in pixels, as in most recordings."""


def step_cost(settings: Settings, side: int) -> StepCost:
    """Count memory and arithmetic of a micro-step of one clip; no device memory is allocated.

    The spike sensor has half the size of the frames. Attention recomputes its scores, as with
    ``MODEL.VRT.ATTENTION: recompute``.

    Args:
        settings: settings of the preset.
        side: side of the crops in pixels.
    """
    with _micro_step(settings, "recompute", 1, side) as step:
        return count_step(step.model, step.batch, step.loss)


def step_traffic(settings: Settings, side: int) -> Traffic:
    """Count operations and memory traffic of a micro-step of the preset's own clips, as on a GPU.

    Attention is one operation, as with ``MODEL.VRT.ATTENTION: sdpa``, and frames are aligned in
    large pieces. Arguments as for :func:`step_cost`.
    """
    accumulates = settings.TRAIN.GRADIENT_ACCUMULATION_STEPS > 1
    with _micro_step(settings, "sdpa", settings.TRAIN.BATCH_SIZE, side) as step:
        for module in step.model.modules():
            if isinstance(module, DeformableAlignment):
                module.max_sampled = MAX_SAMPLED_CUDA
        return count_traffic(step.model, step.loss, accumulates=accumulates)


@dataclass(frozen=True)
class _MicroStep:
    """A micro-step without data.

    Attributes:
        model: network whose tensors have no data.
        batch: blurry frames (B, T, 3, H, W) and voxels (B, T, K, H / 2, W / 2); with
            DATA.NEIGHBOURS those of T + 2 frames.
        loss: function that runs the forward pass.
    """

    model: nn.Module
    batch: tuple[Tensor, Tensor]
    loss: Callable[[], Tensor]


@contextmanager
def _micro_step(settings: Settings, attention: str, clips: int, side: int) -> Iterator[_MicroStep]:
    """Build a micro-step of tensors without data, which exist as long as the context."""
    frames = settings.DATA.CLIP_LEN
    spike_frames = frames + 2 if settings.DATA.NEIGHBOURS else frames
    bins = settings.DATA.NUM_VOXEL_BINS
    vrt = settings.MODEL.VRT.model_copy(update={"ATTENTION": attention})
    counted = settings.MODEL.model_copy(update={"VRT": vrt})
    with FakeTensorMode(allow_non_fake_inputs=True), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = build_model(settings.model_copy(update={"MODEL": counted}), pretrained=False)
        precision = Precision(settings.TRAIN, torch.device("cpu"))
        precision.prepare(model)
        blur = torch.empty(clips, frames, 3, side, side)
        voxels = torch.empty(clips, spike_frames, bins, side // _RATIO, side // _RATIO)

        def loss() -> Tensor:
            with precision.autocast():
                restored = model(blur, voxels).float()
            return charbonnier(restored, torch.zeros_like(restored))

        # As in the training loop, autocast keeps the casts of weights until after the backward
        # pass, which itself runs outside of it.
        with precision.autocast(), precision.exact():
            yield _MicroStep(model, (blur, voxels), loss)
