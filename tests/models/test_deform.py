"""Deformable convolution against torchvision's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torchvision.ops import deform_conv2d

from vrtspike.models.deform import deform_conv


def arguments(channels: int, groups: int, height: int, width: int) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = (
        (2, channels, height, width),
        (2, groups * 18, height, width),
        (2, groups * 9, height, width),
        (3, channels, 3, 3),
        (3,),
    )
    return [torch.randn(s, dtype=torch.float64).mul_(2).requires_grad_() for s in shapes]


@pytest.mark.parametrize("size", [(7, 5), (1, 6), (4, 1)])
def test_agrees_with_torchvision(size: tuple[int, int]) -> None:
    x, offset, mask, weight, bias = inputs = arguments(6, 2, *size)
    expected = deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    found = deform_conv(x, offset, mask, weight, bias)
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    )


def test_gradcheck() -> None:
    assert torch.autograd.gradcheck(deform_conv, tuple(arguments(2, 1, 3, 3)), fast_mode=True)


def test_without_offsets_it_is_a_convolution() -> None:
    x, offset, mask, weight, bias = arguments(6, 2, 5, 4)
    found = deform_conv(x, torch.zeros_like(offset), torch.ones_like(mask), weight, bias)
    torch.testing.assert_close(found, torch.nn.functional.conv2d(x, weight, bias, padding=1))
