"""The last step of a convolution over time: its taps summed over neighbouring frames."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def sum_of_taps(taps: Tensor, bias: Tensor) -> Tensor:
    """Tap 0 of frame t - 1, tap 1 of frame t and tap 2 of frame t + 1, summed in frame t.

    Args:
        taps: (B, T, H, W, 3C), the taps beside each other.
        bias: (C,), added to each frame.

    Returns:
        (B, T, H, W, C).
    """
    out: Tensor = _SumOfTaps.apply(taps, bias)
    return out


class _SumOfTaps(torch.autograd.Function):
    """Written out because a sum of shifted clips, each with a frame of zeros, passes over memory
    twice as often."""

    @staticmethod
    def forward(ctx: Any, taps: Tensor, bias: Tensor) -> Tensor:  # noqa: ANN401
        before, here, after = taps.chunk(3, dim=-1)
        out = here + bias.to(here.dtype)
        # Not +=, which would copy the slice onto itself.
        out[:, 1:].add_(before[:, :-1])
        out[:, :-1].add_(after[:, 1:])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        taps = grad.new_empty(*grad.shape[:-1], 3 * grad.shape[-1])
        before, here, after = taps.chunk(3, dim=-1)
        here.copy_(grad)
        before[:, :-1] = grad[:, 1:]
        before[:, -1] = 0
        after[:, 1:] = grad[:, :-1]
        after[:, 0] = 0
        exact = torch.promote_types(grad.dtype, torch.float32)
        return taps, grad.sum(tuple(range(grad.dim() - 1)), dtype=exact)
