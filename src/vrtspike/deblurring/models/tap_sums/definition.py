"""Sums of a convolution's taps in time, in PyTorch's operations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


def defined_sum(
    taps: Tensor, bias: Tensor | None, residual: Tensor | None, *, slope: float | None
) -> Tensor:
    """The definition of :func:`sum_of_taps`; without a slope there is no activation."""
    out: Tensor = _SumOfTaps.apply(taps, bias)
    return _rectified(out if residual is None else residual + out, slope)


def defined_activation(x: Tensor, bias: Tensor, *, slope: float) -> Tensor:
    """The definition of :func:`activated`."""
    return _rectified(x + bias.to(x.dtype), slope)


def _rectified(x: Tensor, slope: float | None) -> Tensor:
    if slope is None:
        return x
    return functional.leaky_relu(x, slope) if slope else functional.relu(x)


class _SumOfTaps(torch.autograd.Function):
    """The taps of every frame, (B, T, ..., 3C), summed where they fall, and a bias (C,).

    Written out because a sum of shifted clips, each with a frame of zeros, passes over memory twice
    as often.
    """

    @staticmethod
    def forward(ctx: Any, taps: Tensor, bias: Tensor | None) -> Tensor:  # noqa: ANN401
        before, here, after = taps.chunk(3, dim=-1)
        out = here.clone() if bias is None else here + bias.to(here.dtype)
        out[:, 1:] += before[:, :-1]
        out[:, :-1] += after[:, 1:]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
        taps = grad.new_empty(*grad.shape[:-1], 3 * grad.shape[-1])
        before, here, after = taps.chunk(3, dim=-1)
        here.copy_(grad)
        before[:, :-1].copy_(grad[:, 1:])
        before[:, -1].zero_()
        after[:, 1:].copy_(grad[:, :-1])
        after[:, 0].zero_()
        if not ctx.needs_input_grad[1]:
            return taps, None
        exact = torch.promote_types(grad.dtype, torch.float32)
        return taps, grad.sum(tuple(range(grad.dim() - 1)), dtype=exact)
