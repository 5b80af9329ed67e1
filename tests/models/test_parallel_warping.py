"""Guided deformable convolution, against torchvision's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision.ops import deform_conv2d

from tests.models.checks import kept_by
from vrtspike.models.flow import flow_warp
from vrtspike.models.parallel_warping import DeformableAlignment, guided_deform_conv


def expected_conv(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    """The reference, computed by torchvision."""
    groups = raw.shape[1] // 27
    offset = torch.empty_like(raw[:, : groups * 18])
    for group in range(groups):
        for tap in range(9):
            for axis in (0, 1):  # y, x
                at = group * 18 + tap * 2 + axis
                offset[:, at] = max_magnitude * raw[:, at].tanh() + flow[:, 1 - axis]
    mask = raw[:, groups * 18 :].sigmoid()
    return deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)


def frames(channels: int, groups: int, size: Sequence[int], reach: float = 2.0) -> list[Any]:
    """x, raw, flow, weight and bias of two frames, in float64."""
    torch.manual_seed(0)
    x, raw, flow = (
        torch.randn(2, n, *size, dtype=torch.float64) for n in (channels, groups * 27, 2)
    )
    weight, bias = torch.randn(3, channels, 3, 3).double(), torch.randn(3).double()
    return [t.requires_grad_() for t in (x, raw, reach * flow, weight, bias)]


@pytest.mark.parametrize(
    ("groups", "size", "reach"),
    [(2, (7, 5), 2.0), (1, (1, 6), 1.0), (3, (4, 1), 1.0), (6, (3, 4), 1.0), (2, (5, 4), 1e3)],
)
def test_results_are_those_of_torchvision(groups: int, size: tuple[int, int], reach: float) -> None:
    inputs = frames(6, groups, size, reach)
    expected = expected_conv(*inputs, 3.0)
    grad = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, inputs, grad, materialize_grads=True)
    for max_sampled in (1 << 22, 1):  # both pictures at once, one by one
        result = guided_deform_conv(*inputs, 3.0, max_sampled)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(torch.autograd.grad(result, inputs, grad), gradients)


@pytest.mark.parametrize("autocast", [False, True])
def test_positions_are_not_rounded(autocast: bool) -> None:
    x, raw, flow, weight, bias = (t.detach().float() for t in frames(4, 1, (2, 700)))
    x, raw = x.bfloat16(), raw.bfloat16()
    expected = expected_conv(x.float(), raw.float(), flow, weight, bias, 3.0)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result = guided_deform_conv(x, raw, flow, weight, bias, 3.0)
    assert result.dtype == torch.bfloat16
    # Operands are rounded to 8 bits; positions that were would be off by whole pixels.
    assert (result.float() - expected).norm() < 1e-2 * expected.norm()


def test_only_inputs_are_kept_for_the_gradient() -> None:
    inputs = frames(4, 2, (3, 4))
    kept = kept_by(lambda: guided_deform_conv(*inputs, 1.5))
    assert set(kept) <= {t.data_ptr() for t in inputs}


def test_both_neighbours_are_aligned() -> None:
    torch.manual_seed(0)
    align = DeformableAlignment(4, 2, 3.0).double()
    for parameter in align.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x, backward, forward = (
        torch.randn(2, n, *size).double() for n, *size in ((3, 6, 5, 4), (2, 2, 6, 5), (2, 2, 6, 5))
    )
    pictures, expected = x.permute(0, 1, 4, 2, 3), torch.zeros(2, 3, 8, 6, 5).double()
    for frame in range(2):
        pairs = ((frame, frame + 1, backward, 0), (frame + 1, frame, forward, 4))
        for here, other, flows, at in pairs:
            flow, neighbor = flows[:, frame], pictures[:, other]
            warped = flow_warp(neighbor, flow)
            raw = align.conv_offset(torch.cat((warped, pictures[:, here], flow), dim=1))
            result = expected_conv(neighbor, raw, flow, align.weight, align.bias, 3.0)
            expected[:, here, at : at + 4] = result
    result = align(x, torch.cat((backward, forward)).flatten(0, 1))
    torch.testing.assert_close(result.permute(0, 1, 4, 2, 3), expected)
