"""Warping, padding and the flow network."""

from __future__ import annotations

import pytest
import torch

from vrtspike.models.flow import SpyNet, corner_warp, flow_warp, sample_at


def constant_flow(x: float, y: float, height: int, width: int) -> torch.Tensor:
    return torch.tensor([x, y]).view(1, 2, 1, 1).expand(1, 2, height, width)


def test_whole_pixels_shift_and_outside_is_zero() -> None:
    x = torch.rand(1, 3, 5, 7)
    warped = flow_warp(x, constant_flow(2, 1, 5, 7))
    torch.testing.assert_close(warped[..., :-1, :-2], x[..., 1:, 2:])
    assert warped[..., -1, :].abs().max() < 1e-5
    bordered = flow_warp(x, constant_flow(0, 9, 5, 7), padding="border")
    torch.testing.assert_close(bordered, x[..., -1:, :].expand_as(x))


def test_double_precision_stays_double() -> None:
    torch.manual_seed(0)
    x = torch.rand(1, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    flow = (torch.rand(1, 2, 4, 5, dtype=torch.float64) - 0.5).requires_grad_()
    assert torch.autograd.gradcheck(flow_warp, (x, flow))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_a_flow_of_any_value_has_a_gradient(padding: str, value: float) -> None:
    # A diverged network gives such flows; PyTorch ended the process.
    torch.manual_seed(0)
    x = torch.rand(2, 3, 32, 32, requires_grad=True)
    flow = torch.zeros(2, 2, 32, 32)
    flow[torch.rand(flow.shape) < 0.3] = value
    warped = flow_warp(x, flow.requires_grad_(), padding)
    warped.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_finite_positions_are_sampled_as_by_pytorch() -> None:
    torch.manual_seed(0)
    x = torch.rand(1, 3, 8, 9)
    columns, rows = 12 * torch.rand(1, 8, 9) - 2, 12 * torch.rand(1, 8, 9) - 2
    columns[0, 0], rows[0, 1] = float("nan"), float("nan")
    grid = torch.stack(((2 * columns + 1) / 9 - 1, (2 * rows + 1) / 8 - 1), dim=-1)
    for padding in ("zeros", "border"):
        expected = torch.nn.functional.grid_sample(
            x, grid, "bilinear", padding, align_corners=False
        )
        sampled = sample_at(x, columns, rows, padding=padding)
        torch.testing.assert_close(sampled, expected, rtol=0, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pixels_of_a_large_picture_are_distinct_in_half_precision(dtype: torch.dtype) -> None:
    # bfloat16 has steps of 16 there, float16 of 2.
    x = torch.rand(1, 1, 1, 3000).to(dtype)
    flow = constant_flow(5, 0, 1, 3000).to(dtype)
    warped = flow_warp(x, flow)
    assert warped.dtype == dtype
    torch.testing.assert_close(warped[..., :-5], x[..., 5:], rtol=0, atol=2e-3)
    corners = corner_warp(x, flow)
    assert corners.dtype == dtype
    for corner in corners.split(1, dim=1):
        assert torch.equal(corner[..., :-5], x[..., 5:])
        assert not corner[..., -5:].any()


def test_corners_are_the_four_pixels_around_the_target() -> None:
    x = torch.rand(1, 3, 5, 7)
    corners = corner_warp(x, constant_flow(0.3, -0.6, 5, 7)).unflatten(1, (4, 3))
    here = corners[0, :, :, 2, 3]
    assert torch.equal(here[0], x[0, :, 1, 3])  # floor x, floor y
    assert torch.equal(here[1], x[0, :, 2, 3])  # floor x, ceil y
    assert torch.equal(here[2], x[0, :, 1, 4])  # ceil x, floor y
    assert torch.equal(here[3], x[0, :, 2, 4])  # ceil x, ceil y
    assert not corners[0, 0, :, 0].any()  # one row above the picture
    assert not corner_warp(x, constant_flow(float("nan"), 0, 5, 7)).any()


def test_flows_are_rescaled_with_the_picture() -> None:
    net = SpyNet()
    with torch.no_grad():
        for parameter in net.basic_module[5].basic_module[-1].parameters():
            parameter.fill_(0.0)
        net.basic_module[5].basic_module[-1].bias.copy_(torch.tensor([3.2, 6.4]))
        flow = net(torch.rand(1, 3, 40, 48), torch.rand(1, 3, 40, 48), 1)[0]
    # Computed at 64 x 64, wanted at 40 x 48.
    torch.testing.assert_close(flow[:, 0], torch.full((1, 40, 48), 3.2 * 48 / 64))
    torch.testing.assert_close(flow[:, 1], torch.full((1, 40, 48), 6.4 * 40 / 64))
