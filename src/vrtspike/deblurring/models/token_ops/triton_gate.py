"""The gate of GEGLU by our own Triton kernels, for CUDA: each tensor is read and written once."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision
from vrtspike.deblurring.models.token_ops.launch import Launch

GATE: Launch = MappingProxyType({"BLOCK": 128, "BLOCK_H": 32, "num_warps": 4})
GATE_GRADIENT: Launch = MappingProxyType({"BLOCK": 64, "BLOCK_H": 32, "TILES": 8, "num_warps": 4})


def triton_gate(hidden: Tensor, bias: Tensor) -> Tensor:
    """GELU(first half) * second half of ``hidden + bias``.

    Args:
        hidden: (rows, 2H), in the type of the products.
        bias: (2H,). It is added here because its gradient then is a sum over what this pass makes.

    Returns:
        (rows, H).
    """
    out: Tensor = _gate(hidden, bias)
    return out


def triton_gate_backward(
    grad: Tensor, hidden: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gate's result again, (rows, H), and the gradients of ``hidden`` and ``bias``, (2H,)."""
    out = torch.empty_like(grad)
    return out, *_launch_backward(grad, hidden, bias, out)


def _grid(hidden: Tensor, launch: Launch) -> tuple[int, int]:
    rows, width = hidden.shape
    taken = launch["BLOCK"] * launch.get("TILES", 1)
    return -(-rows // taken), -(-width // 2 // launch["BLOCK_H"])


@torch.library.custom_op("vrtspike::triton_gate", mutates_args=())
def _gate(hidden: Tensor, bias: Tensor) -> Tensor:
    from vrtspike.deblurring.models.token_ops.gate_kernels import gate_kernel

    hidden = hidden.contiguous()
    rows, width = hidden.shape
    out = hidden.new_empty(rows, width // 2)
    with on_device_of(hidden):
        gate_kernel[_grid(hidden, GATE)](
            hidden, bias, out, rows, H=width // 2, PRECISION=precision(hidden.dtype), **GATE
        )
    return out


@_gate.register_fake
def _(hidden: Tensor, bias: Tensor) -> Tensor:
    return hidden.new_empty(hidden.shape[0], hidden.shape[1] // 2)


@torch.library.custom_op("vrtspike::triton_gate_backward", mutates_args=())
def _backward(grad: Tensor, hidden: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return _launch_backward(grad, hidden, bias, None)


@_backward.register_fake
def _(grad: Tensor, hidden: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(hidden), torch.empty_like(bias, dtype=torch.float32)


def _launch_backward(
    grad: Tensor, hidden: Tensor, bias: Tensor, out: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gradients of ``hidden`` and ``bias``; ``out`` is filled with the gate's result."""
    from vrtspike.deblurring.models.token_ops.gate_kernels import gate_gradient_kernel

    grad, hidden = grad.contiguous(), hidden.contiguous()
    grad_hidden = torch.empty_like(hidden)
    rows, width = hidden.shape
    grid = _grid(hidden, GATE_GRADIENT)
    lines = hidden.new_empty(grid[0], width, dtype=torch.float32)
    with on_device_of(hidden):
        gate_gradient_kernel[grid](
            grad,
            hidden,
            bias,
            grad if out is None else out,
            grad_hidden,
            lines,
            rows,
            H=width // 2,
            AGAIN=out is not None,
            PRECISION=precision(hidden.dtype),
            **GATE_GRADIENT,
        )
    return grad_hidden, lines.sum(0)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
    ctx.save_for_backward(*inputs)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    hidden, bias = ctx.saved_tensors
    grad_hidden, grad_bias = _backward(grad, hidden, bias)
    return grad_hidden, grad_bias.to(bias.dtype)


_gate.register_autograd(_grads, setup_context=_save)
