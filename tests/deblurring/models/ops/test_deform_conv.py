"""Guided deformable convolution: against torchvision's, and its kernels against the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchvision.ops import deform_conv2d

from vrtspike.deblurring.models.ops.deform_conv import (
    conv_of_parts,
    guided_deform_conv,
    operation,
    reference,
)
from vrtspike.deblurring.models.ops.deform_conv.reference import (
    by_torchvision,
    deform_conv_of_raw_offsets,
)
from vrtspike.deblurring.models.ops.deform_conv.triton_deform import kernel_takes
from vrtspike.deblurring.models.ops.dispatch import Compute


def expected_conv(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    """What the reference promises, number by number, by torchvision."""
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
def test_the_reference_is_torchvisions(
    groups: int, size: tuple[int, int], reach: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = frames(6, groups, size, reach)
    expected = expected_conv(*inputs, 3.0)
    grad = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, inputs, grad, materialize_grads=True)
    monkeypatch.setattr(reference, "_PIXELS_CUDA", 1)  # frame by frame
    for run in (deform_conv_of_raw_offsets, by_torchvision):
        found = run(*inputs, 3.0)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, inputs, grad), gradients)


@pytest.mark.parametrize("run", [deform_conv_of_raw_offsets, by_torchvision])
@pytest.mark.parametrize("autocast", [False, True])
def test_positions_are_not_rounded(run: Callable[..., Tensor], autocast: bool) -> None:
    x, raw, flow, weight, bias = (t.detach().float() for t in frames(4, 1, (2, 700)))
    x, raw, weight = x.bfloat16(), raw.bfloat16(), weight.requires_grad_()
    grad = torch.randn(2, 3, 2, 700).bfloat16()
    expected = expected_conv(x.float(), raw.float(), flow, weight, bias, 3.0)
    (expected_gradient,) = torch.autograd.grad(expected, weight, grad.float())
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = run(x, raw, flow, weight, bias, 3.0)
    # torchvision's own gradients obey autocast, which is off in a backward pass.
    autocast &= run is not by_torchvision
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        (gradient,) = torch.autograd.grad(found, weight, grad)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=1e-2)
    assert (gradient - expected_gradient).norm() < 1e-4 * expected_gradient.norm()


def test_the_reference_keeps_its_inputs_only() -> None:
    inputs = frames(4, 2, (3, 4))
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()), list):
        deform_conv_of_raw_offsets(*inputs, 1.5)
    assert set(kept) == {t.data_ptr() for t in inputs[:4]}


def clip(channels: int = 4) -> list[Any]:
    """What the operation takes, for two clips of three frames, in float64."""
    torch.manual_seed(0)
    x, hidden = torch.randn(2, 3, 4, 5, channels), torch.randn(8, 6, 4, 5)
    last = nn.Conv2d(6, 2 * 27, 3, padding=1)
    flow, weight, bias = 2 * torch.randn(8, 2, 4, 5), torch.randn(3, channels, 3, 3), torch.randn(3)
    return [t.double() for t in (x, hidden, last, flow, weight, bias)]


def expected_clip(
    x: Tensor, hidden: Tensor, last: nn.Conv2d, flow: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """What the operation promises, frame by frame."""
    clips, steps, *size, _ = x.shape
    fan_out = len(weight)
    out = x.new_zeros(clips, steps, *size, 2 * fan_out)
    raw = last(hidden)
    for clip in range(clips):
        for step in range(steps - 1):
            for previous in (0, 1):  # the next frame, then the previous one
                pair = (previous * clips + clip) * (steps - 1) + step
                to, of = (step + 1, step) if previous else (step, step + 1)
                one = slice(pair, pair + 1)
                picture = x[clip, of].permute(2, 0, 1)[None]
                found = expected_conv(picture, raw[one], flow[one], weight, bias, 3.0)
                channels = slice(previous * fan_out, (previous + 1) * fan_out)
                out[clip, to, ..., channels] = found[0].permute(1, 2, 0)
    return out


def test_the_operation_aligns_both_neighbours() -> None:
    inputs = clip()
    found = guided_deform_conv(*inputs, 3.0, Compute())
    torch.testing.assert_close(found, expected_clip(*inputs))
    assert not found[:, -1, ..., :3].any()
    assert not found[:, 0, ..., 3:].any()


def test_pairs_that_do_not_fit_are_refused() -> None:
    x, hidden, last, *others = clip()
    flow, weights = others[0], others[1:]
    for wrong in (
        (x, hidden[:-1], last, flow),
        (x, hidden, last, flow[:-1]),
        (x, hidden, last, flow[..., :-1]),
        (x[:, :1], hidden[:0], last, flow[:0]),
    ):
        with pytest.raises(ValueError, match="expected"):
            guided_deform_conv(*wrong, *weights, 3.0, Compute())


def test_a_convolution_of_parts_is_that_of_all_channels() -> None:
    torch.manual_seed(0)
    parts = [torch.randn(2, 4, 5, channels) for channels in (3, 2)]
    layer = nn.Conv2d(5, 4, 3, padding=1)
    expected = layer(torch.cat(parts, dim=-1).permute(0, 3, 1, 2))
    torch.testing.assert_close(conv_of_parts(parts, layer), expected)


@pytest.mark.parametrize(
    ("shape", "groups", "fan_out", "takes"),
    [
        ((1, 5, 256, 256, 96), 16, 96, True),
        ((1, 2, 720, 1280, 96), 16, 96, True),
        ((1, 5, 256, 256, 120), 12, 120, False),  # ten channels a group
        ((1, 5, 64, 64, 160), 20, 160, False),  # too wide for the registers
        ((1, 5, 64, 64, 96), 16, 160, False),
        ((1, 2, 4320, 7680, 96), 16, 96, False),  # corners beyond 32 bits
    ],
)
def test_sizes_the_kernels_are_made_for(
    shape: tuple[int, ...], groups: int, fan_out: int, takes: bool
) -> None:
    assert kernel_takes(torch.empty(1).expand(shape), groups, fan_out) == takes


@pytest.mark.parametrize(
    ("channels", "trusted", "deterministic", "runs"),
    [
        (4, True, False, True),
        (4, False, False, False),
        (4, True, True, False),
        (18, True, False, False),  # nine a group
    ],
)
def test_the_kernel_runs_where_it_may(
    channels: int,
    trusted: bool,
    deterministic: bool,
    runs: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = []

    def by_kernel(*inputs: Any) -> Tensor:
        ran.append(inputs[0].dtype)
        return operation.by_reference(*inputs)

    monkeypatch.setattr(operation, "by_kernel", by_kernel)
    monkeypatch.setattr(operation, "uses_kernel", lambda *_: trusted)
    torch.use_deterministic_algorithms(deterministic)
    try:
        guided_deform_conv(*clip(channels), 3.0, Compute())
    finally:
        torch.use_deterministic_algorithms(False)
    assert ran == [torch.float64] * runs
