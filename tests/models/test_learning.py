"""The spike branch learns to use the spikes of each frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from vrtspike.models.restorer import Restorer
from vrtspike.models.shuffled_spikes import ShuffledSpikes
from vrtspike.models.vrt_spike import VRTSpike

FRAMES, BINS, SIZE = 3, 8, 16
STEPS = 40


def scenes(seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Blurry clips, voxels and sharp clips: plane waves that move during an exposure."""
    random = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    instants = torch.arange(FRAMES * BINS) / BINS  # in exposures
    while True:
        wave, speed, phase = torch.rand(3, 2, 2, 1, 1, 1, generator=random) * 2 - 1
        angle = 1.2 * (wave[0] * y + wave[1] * x) + 6 * phase[0]
        angle = angle + 3 * torch.sign(speed[0]) * (0.5 + speed[1].abs()) * instants.view(-1, 1, 1)
        light = 0.5 + 0.4 * angle.sin()  # (clips, instants, rows, columns)
        bins = light.unflatten(1, (FRAMES, BINS))
        gray = torch.stack((bins.mean(dim=2), bins[:, :, BINS // 2]))
        blur, sharp = gray[:, :, :, None].expand(-1, -1, -1, 3, -1, -1)
        yield blur, (bins - 0.5) / 0.28, sharp


def gain_db(model: Restorer, seed: int) -> float:
    """Gain over the blurry clips, in dB, on unseen scenes."""
    before = after = 0.0
    with torch.no_grad():
        for _, (blur, voxels, sharp) in zip(range(8), scenes(seed), strict=False):
            before += (blur - sharp).square().mean().item()
            after += (model(blur, voxels) - sharp).square().mean().item()
    return 10 * math.log10(before / after)


def trained(model: Restorer) -> Restorer:
    """The model after a few steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step, (blur, voxels, sharp) in zip(range(STEPS), scenes(1), strict=False):
        torch.manual_seed(step)  # of the order of shuffled spikes
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * (1 - step / STEPS)
        loss = (model(blur, voxels) - sharp).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.mark.slow
def test_spikes_sharpen_clips_after_a_few_steps(
    small_vrt_spike: Callable[..., VRTSpike],
) -> None:
    small = partial(small_vrt_spike, BINS, at_zero=True, pa_frames=0)
    gain = gain_db(trained(small()), seed=2)
    control = ShuffledSpikes(small(), bins=BINS, neighbors=False, one_by_one=False)
    foreign = gain_db(trained(control), seed=2)
    assert gain > 6
    assert foreign < gain - 4, "what is learned is which spikes belong to which frame"
