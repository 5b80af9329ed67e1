"""Perceptual loss of named VGG layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchvision.models import vgg16

from vrtspike.losses.vgg_perceptual import VggPerceptual


@pytest.fixture(scope="module")
def vgg() -> nn.Module:
    torch.manual_seed(0)
    return vgg16(weights=None)


def test_perceptual_distance_is_that_of_the_named_layers(vgg):
    x, y = torch.rand(1, 2, 3, 32, 32, requires_grad=True), torch.rand(1, 2, 3, 32, 32)
    loss = VggPerceptual(vgg.features, ("relu1_2", "relu3_3"))
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    a, b = ((x[0] - mean) / std, (y[0] - mean) / std)
    expected = 0.0
    with torch.no_grad():
        for index, module in enumerate(vgg.features[:16]):
            a, b = module(a), module(b)
            if index in (3, 15):
                expected += (a - b).abs().mean()
    distance = loss(x, y)
    torch.testing.assert_close(distance, expected)
    assert loss(y, y) == 0
    distance.backward()
    assert x.grad.abs().sum() > 0
    assert not any(p.requires_grad for p in loss.parameters())
