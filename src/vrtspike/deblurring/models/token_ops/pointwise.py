"""Layer norm and the gate of GEGLU with their gradients, as plain functions without autograd."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

EPSILON = 1e-5
# Values of the widest intermediate result in one piece. On a CPU a piece stays in the cache
# (1 MiB in float32); a GPU has no such cache, and few large pieces keep it busy.
_PIECE_CPU = 1 << 18
_PIECE_CUDA = 1 << 28


def pieces(rows: int, width: int, device: torch.device) -> Iterator[slice]:
    """Consecutive parts of ``rows`` rows whose intermediate results are ``width`` wide."""
    budget = _PIECE_CUDA if device.type == "cuda" else _PIECE_CPU
    step = max(budget // width, 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def normalise(
    x: Tensor, scale: Tensor, shift: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm over the channels, computed in float32 or better.

    Args:
        x: (rows, C).
        scale: (C,).
        shift: (C,).
        dtype: type of the result.

    Returns:
        The result (rows, C), and mean and reciprocal standard deviation (rows, 1).
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    normed, mean, rstd = torch.native_layer_norm(
        x.to(exact), x.shape[1:], scale.to(exact), shift.to(exact), EPSILON
    )
    return normed.to(dtype), mean, rstd


def normalise_backward(
    grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x (in its type), scale and shift (in float32 or better)."""
    exact = mean.dtype
    grad_x, grad_scale, grad_shift = torch.ops.aten.native_layer_norm_backward(
        grad.to(exact),
        x.to(exact),
        x.shape[1:],
        mean,
        rstd,
        scale.to(exact),
        torch.zeros_like(scale, dtype=exact),
        [True, True, True],
    )
    return grad_x.to(x.dtype), grad_scale, grad_shift


def gate(hidden: Tensor) -> Tensor:
    """GELU(first half) * second half: (rows, 2H) -> (rows, H)."""
    first, second = hidden.chunk(2, dim=1)
    return functional.gelu(first) * second


def gate_backward(grad: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The gate's result again, (rows, H), and the gradient of ``hidden``, (rows, 2H)."""
    first, second = hidden.chunk(2, dim=1)
    gated = functional.gelu(first)
    grad_first = torch.ops.aten.gelu_backward(grad * second, first)
    return gated * second, torch.cat((grad_first, grad * gated), dim=1)
