"""The taps in time of a convolution, summed over neighbouring frames."""

from __future__ import annotations

import pytest
import torch

from vrtspike.deblurring.models.ops.sum_of_taps import sum_of_taps


def test_taps_fall_on_the_frames_around_theirs() -> None:
    # One channel, three frames of one pixel: taps 1, 10, 100 of the first, twice that of the next.
    taps = torch.tensor([1.0, 10.0, 100.0]) * torch.arange(1, 4).view(3, 1)
    found = sum_of_taps(taps.view(1, 3, 1, 1, 3), torch.tensor([0.5]))
    assert found.flatten().tolist() == [10 + 200 + 0.5, 20 + 1 + 300 + 0.5, 30 + 2 + 0.5]


@pytest.mark.parametrize("frames", [1, 3])
def test_gradcheck(frames: int) -> None:
    torch.manual_seed(0)
    taps = torch.randn(2, frames, 1, 2, 6, dtype=torch.double, requires_grad=True)
    bias = torch.randn(2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(sum_of_taps, (taps, bias))


def test_the_gradient_of_the_bias_is_summed_in_float32() -> None:
    taps = torch.zeros(1, 2, 100, 100, 3, dtype=torch.bfloat16, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    sum_of_taps(taps, bias).sum().backward()
    assert bias.grad is not None
    assert bias.grad.item() == 20000
