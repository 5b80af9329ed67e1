from __future__ import annotations

import pytest
import torch
from torchvision.models import alexnet

from vrtspike.deblurring.losses.lpips import LpipsDistance
from vrtspike.deblurring.perceptual import build_lpips


def test_lpips_of_clips_is_the_mean_over_frames():
    torch.manual_seed(0)
    network = build_lpips(alexnet(weights=None).state_dict(), "alex")
    loss = LpipsDistance(network)
    x, y = torch.rand(2, 1, 2, 3, 64, 64)
    single = [network(x[:, t] * 2 - 1, y[:, t] * 2 - 1).item() for t in range(2)]
    assert loss(x, y).item() == pytest.approx(sum(single) / 2, rel=1e-4)
    assert loss(x, x) == 0
