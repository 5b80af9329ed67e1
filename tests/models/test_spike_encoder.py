"""The pyramid of spike features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.models.spike_encoder import ResidualClipBlock, SpikeEncoder


def test_the_encoder_is_its_convolutions_written_out() -> None:
    torch.manual_seed(0)
    encoder = SpikeEncoder(3, (4, 6)).double()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    voxels = torch.randn(1, 3, 3, 4, 6, dtype=torch.float64)

    def conv(layer: torch.nn.Module, x: Tensor, stride: int = 1) -> Tensor:
        assert isinstance(layer, torch.nn.Conv3d)
        return functional.conv3d(x, layer.weight, layer.bias, (1, stride, stride), padding=1)

    def blocks(number: int, x: Tensor) -> Tensor:
        scale = encoder.scales[number]
        assert isinstance(scale, torch.nn.Sequential)
        for block in scale:
            assert isinstance(block, ResidualClipBlock)
            x = (x + conv(block.conv2, conv(block.conv1, x).relu())).relu()
        return x

    mean = voxels.mean(dim=2, keepdim=True)
    x = torch.cat((mean, voxels - mean), dim=2).transpose(1, 2)
    fine = blocks(0, conv(encoder.stem, x).relu())
    coarse = blocks(1, conv(encoder.downs[0], fine, stride=2))
    for result, expected in zip(encoder(voxels), (fine, coarse), strict=True):
        torch.testing.assert_close(result, expected.permute(0, 2, 3, 4, 1))
