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

from step_counting import StepCost, Traffic, count_step, count_traffic, fused_attention
from vrtspike.data.clips.neighbors import voxel_frames
from vrtspike.losses.charbonnier import charbonnier
from vrtspike.models import Restorer, build_model
from vrtspike.models.parallel_warping import MAX_SAMPLED_CUDA, DeformableAlignment
from vrtspike.training.precision import Precision

if TYPE_CHECKING:
    from vrtspike.deblurring_settings import DeblurringSettings

_RATIO = 2
"""Ratio of the sides of frame and spike sensor in pixels, as in most recordings."""


def step_cost(settings: DeblurringSettings, side: int) -> tuple[StepCost, Traffic]:
    """Count a micro-step of the preset's own clips as on a GPU; no memory is allocated.

    The spike sensor has half the size of the frames. Attention is one operation, as with
    ``MODEL.VRT.ATTENTION: sdpa``, and frames are aligned in large pieces.

    Args:
        settings: settings of the preset.
        side: side of the crops in pixels.

    Returns:
        memory and arithmetic; operations and memory traffic.
    """
    accumulates = settings.TRAIN.GRADIENT_ACCUMULATION_STEPS > 1
    with _micro_step(settings, side) as step:
        cost = count_step(step.model, step.batch, step.loss)
    # Another one, since autocast has kept the casts of the first one's weights.
    with _micro_step(settings, side) as step:
        traffic = count_traffic(step.model, step.loss, accumulates=accumulates)
    return cost, traffic


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
def _micro_step(settings: DeblurringSettings, side: int) -> Iterator[_MicroStep]:
    """Build a micro-step of tensors without data, which exist as long as the context."""
    precision = Precision(settings.TRAIN, torch.device("cpu"))
    # As in the training loop, autocast keeps the casts of weights until after the backward pass,
    # which itself runs outside of it.
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        fused_attention(),
        precision.autocast(),
        precision.full_precision(),
    ):
        model = _network(settings)
        precision.prepare(model)
        forward_module = precision.forward_module(
            model, half_precision_weights=model.half_precision_weights
        )
        blur, voxels = _clips(settings, side)

        def loss() -> Tensor:
            with precision.autocast():
                restored = forward_module(blur, voxels).float()
            return charbonnier(restored, torch.zeros_like(restored))

        yield _MicroStep(model, (blur, voxels), loss)


def _network(settings: DeblurringSettings) -> Restorer:
    """Build the network of a preset as it runs on a GPU."""
    vrt = settings.MODEL.VRT.model_copy(update={"ATTENTION": "sdpa"})
    counted = settings.MODEL.model_copy(update={"VRT": vrt})
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = build_model(settings.model_copy(update={"MODEL": counted}), pretrained=False)
    for module in model.modules():
        if isinstance(module, DeformableAlignment):
            module.max_sampled = MAX_SAMPLED_CUDA
    return model


def _clips(settings: DeblurringSettings, side: int) -> tuple[Tensor, Tensor]:
    """Return blurry frames and voxels of a micro-step, see :class:`_MicroStep`."""
    clips = settings.TRAIN.BATCH_SIZE
    frames = settings.DATA.CLIP_LEN
    spike_frames = voxel_frames(frames, neighbors=settings.DATA.NEIGHBOURS)
    bins = settings.DATA.NUM_VOXEL_BINS
    blur = torch.empty(clips, frames, 3, side, side)
    voxels = torch.empty(clips, spike_frames, bins, side // _RATIO, side // _RATIO)
    return blur, voxels
