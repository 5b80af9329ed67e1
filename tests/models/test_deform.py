"""Deformable convolution against torchvision's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torchvision.ops import deform_conv2d

from vrtspike.models.deform.definition import (
    deform_conv,
    deform_conv_backward,
    guided_deform_conv,
    offsets_and_mask,
    torchvision_backward,
)


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
def test_the_convolution_is_torchvisions(size: tuple[int, int]) -> None:
    x, offset, mask, weight, bias = inputs = arguments(6, 2, *size)
    expected = deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    with torch.no_grad():
        torch.testing.assert_close(deform_conv(x, offset, mask, weight, bias), expected)
    grad = torch.randn_like(expected)
    for backward in (deform_conv_backward, torchvision_backward):
        found = backward(grad, *(t.detach() for t in inputs[:4]))
        torch.testing.assert_close(found, torch.autograd.grad(expected, inputs, grad, True))


def test_offsets_are_a_bounded_correction_of_the_flow() -> None:
    raw, flow = torch.randn(2, 2 * 27, 3, 4) * 100, torch.randn(2, 2, 3, 4)
    offset, mask = offsets_and_mask(raw, flow, 5.0)
    pairs = offset.unflatten(1, (-1, 2))
    assert ((pairs - flow.flip(1)[:, None]).abs() <= 5.001).all()
    assert (mask >= 0).all()
    assert (mask <= 1).all()


def test_gradcheck() -> None:
    x, offset, mask, weight, bias = arguments(2, 1, 3, 3)
    raw = torch.cat((offset, mask), dim=1).detach().requires_grad_()
    flow = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *inputs: guided_deform_conv(*inputs, 1.5),
        (x, raw, flow, weight, bias),
        fast_mode=True,
    )


def test_without_offsets_it_is_a_convolution() -> None:
    x, offset, mask, weight, bias = arguments(6, 2, 5, 4)
    with torch.no_grad():
        found = deform_conv(x, torch.zeros_like(offset), torch.ones_like(mask), weight, bias)
        torch.testing.assert_close(found, torch.nn.functional.conv2d(x, weight, bias, padding=1))
