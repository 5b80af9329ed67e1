"""Deformable convolution against torchvision's."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torchvision.ops import deform_conv2d

from vrtspike.deblurring.models import feature_alignment
from vrtspike.deblurring.models.deform import definition
from vrtspike.deblurring.models.deform.definition import (
    deform_conv,
    deform_conv_backward,
    guided_deform_conv,
    offsets_and_mask,
    torchvision_backward,
    torchvision_conv,
)
from vrtspike.deblurring.models.deform.guide import alignment_guide, guide_kernel_takes, guide_width
from vrtspike.deblurring.models.deform.kernel import kernel_takes
from vrtspike.deblurring.models.deform.pairs import beside_frames, neighbours
from vrtspike.deblurring.models.feature_alignment import DeformableAlignment, align_neighbours

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


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
        for run in (deform_conv, torchvision_conv):
            torch.testing.assert_close(run(x, offset, mask, weight, bias), expected)
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


def frozen_parts(flow_learns: bool, weight_learns: bool) -> list[Tensor]:
    """x, raw, flow, weight and bias, some of which want no gradient."""
    x, offset, mask, weight, bias = arguments(4, 2, 3, 4)
    raw = torch.cat((offset, mask), dim=1).detach().requires_grad_()
    flow = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=flow_learns)
    parameters = (t.detach().requires_grad_(weight_learns) for t in (weight, bias))
    return [x, raw, flow, *parameters]


def test_what_is_frozen_costs_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spy(*inputs: Tensor) -> definition.Gradients:
        asked.append(inputs[5])
        return deform_conv_backward(*inputs)

    monkeypatch.setattr(definition, "deform_conv_backward", spy)
    inputs = frozen_parts(flow_learns=True, weight_learns=True)
    expected = torch.autograd.grad(guided_deform_conv(*inputs, 1.5).sin().sum(), inputs)
    inputs = frozen_parts(flow_learns=False, weight_learns=False)
    guided_deform_conv(*inputs, 1.5).sin().sum().backward()
    assert asked == [True, True, False, False]
    torch.testing.assert_close(inputs[0].grad, expected[0])
    torch.testing.assert_close(inputs[1].grad, expected[1])
    assert [t.grad for t in inputs[2:]] == [None] * 3


def test_without_the_weights_gradient_the_others_are_the_same() -> None:
    x, offset, mask, weight, _ = (t.detach() for t in arguments(4, 2, 3, 4))
    grad = torch.randn(2, 3, 3, 4, dtype=torch.float64)
    every = deform_conv_backward(grad, x, offset, mask, weight)
    some = deform_conv_backward(grad, x, offset, mask, weight, False)
    assert some[3:] == (None, None)
    torch.testing.assert_close(some[:3], every[:3])


@pytest.mark.parametrize("learns", [False, True])
def test_results_are_declared_as_they_are(learns: bool) -> None:
    inputs = [t.detach() for t in frozen_parts(learns, learns)]
    own = torch.ops.vrtspike
    wanted = [True, True, learns, learns, learns]
    grad = torch.randn(2, 3, 3, 4, dtype=torch.float64)
    utils = ("test_schema", "test_faketensor")
    torch.library.opcheck(own.guided_deform_conv, (*inputs, 1.5), test_utils=utils)
    arguments = (grad, *inputs[:4], 1.5, wanted)
    torch.library.opcheck(own.guided_deform_conv_backward, arguments, test_utils=utils)


def by_definition(
    x: Tensor,
    raw: Tensor,
    shift: Tensor,
    flow: Tensor,
    weight: Tensor,
    bias: Tensor,
    max_magnitude: float,
) -> Tensor:
    """What :func:`deform_by_kernel` promises, by torchvision, from the order of its arguments."""
    b, t, h, w, c = x.shape
    shifted = torch.cat((x[:, 1:], x[:, :-1])).reshape(-1, h, w, c)
    groups = raw.shape[-1]
    down, right, modulation = (raw + shift).unbind(-2)
    move = max_magnitude * torch.stack((down, right), dim=-1).tanh()
    move = move + flow.permute(0, 2, 3, 1).flip(-1)[:, :, :, None, None]
    offset = move.permute(0, 4, 3, 5, 1, 2).flatten(1, 3)
    mask = modulation.sigmoid().permute(0, 4, 3, 1, 2).flatten(1, 2)
    assert offset.shape[1] == groups * 18
    picture = shifted.permute(0, 3, 1, 2)
    aligned = deform_conv2d(picture, offset, weight, bias, padding=1, mask=mask)
    later, earlier = aligned.permute(0, 2, 3, 1).reshape(2, b, t - 1, h, w, -1)
    out = x.new_zeros(b, t, h, w, 2 * weight.shape[0])
    out[:, :-1, ..., : weight.shape[0]] = later
    out[:, 1:, ..., weight.shape[0] :] = earlier
    return out


def alignment(channels: int, groups: int) -> DeformableAlignment:
    """One whose offsets are not zero, in float64."""
    align = DeformableAlignment(channels, groups, 3.0)
    for parameter in align.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return align.double()


def test_neighbours_return_to_their_frames() -> None:
    x = torch.arange(2 * 3 * 2.0).view(2, 3, 1, 1, 2)
    neighbour, frame = neighbours(x)
    placed = beside_frames(neighbour, 3)
    assert torch.equal(placed[:, :-1, ..., :2], x[:, 1:])
    assert torch.equal(placed[:, 1:, ..., 2:], x[:, :-1])
    assert not placed[:, -1, ..., :2].any()
    assert not placed[:, 0, ..., 2:].any()
    assert torch.equal(beside_frames(frame, 3)[:, 1], torch.cat((x[:, 1], x[:, 1]), dim=-1))


@pytest.mark.parametrize(("channels", "groups"), [(6, 2), (4, 1), (5, 5)])
def test_the_way_of_the_kernels_is_that_of_the_definition(
    channels: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    align = alignment(channels, groups)
    shapes = ((2, 3, 6, 5, channels), (2, 2, 2, 6, 5), (2, 2, 2, 6, 5))
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    leaves = [*inputs, *align.parameters()]

    def run() -> tuple[Tensor, tuple[Tensor, ...]]:
        out = torch.cat(align_neighbours(align, *inputs), dim=-1)
        return out, torch.autograd.grad(out.sin().sum(), leaves)

    expected = run()
    monkeypatch.setattr(feature_alignment, "by_kernels", lambda *_: True)
    monkeypatch.setattr(feature_alignment, "guide_by_kernel", alignment_guide)
    monkeypatch.setattr(feature_alignment, "deform_by_kernel", by_definition)
    torch.testing.assert_close(run(), expected)


def test_the_guide_is_as_wide_as_products_want_it() -> None:
    assert [guide_width(c) for c in (2, 3, 96)] == [8, 16, 200]
    x, flow = torch.rand(1, 2, 2, 3, 4), torch.rand(2, 2, 2, 3)
    features, guide = alignment_guide(x, flow, torch.bfloat16)
    assert torch.equal(features, x.bfloat16())
    assert guide.dtype == torch.bfloat16
    assert guide.shape == (2, 2, 3, 16)
    assert (guide[..., 10] == 1).all()
    assert not guide[..., 11:].any()


@pytest.mark.parametrize(
    ("shape", "groups", "fan_out", "takes"),
    [
        ((1, 5, 256, 256, 96), 16, 96, True),
        ((1, 2, 720, 1280, 96), 16, 96, True),
        ((1, 5, 256, 256, 120), 12, 120, False),  # ten channels a group
        ((1, 5, 64, 64, 160), 20, 160, False),  # too wide for the registers
        ((1, 2, 4320, 7680, 96), 16, 96, False),  # corners beyond 32 bits
    ],
)
def test_sizes_the_kernels_are_made_for(
    shape: tuple[int, ...], groups: int, fan_out: int, takes: bool
) -> None:
    x = torch.empty(1).expand(shape)
    assert kernel_takes(x, groups, fan_out) == takes


def test_a_single_row_is_left_to_the_definition() -> None:
    assert guide_kernel_takes(torch.empty(1, 2, 2, 2, 8))
    assert not guide_kernel_takes(torch.empty(1, 2, 1, 8, 8))
    assert not guide_kernel_takes(torch.empty(1, 2, 8, 1, 8))


def check(environment: dict[str, str]) -> None:
    program = Path(__file__).with_name("deform_check.py")
    environment = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.endurance
@pytest.mark.slow
@needs_triton
def test_kernels_in_the_interpreter() -> None:
    check({"TRITON_INTERPRET": "1"})


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_kernels_on_the_device() -> None:
    check({})
