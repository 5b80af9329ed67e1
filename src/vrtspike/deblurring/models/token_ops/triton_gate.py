"""The gate of GEGLU by our own Triton kernels, for CUDA: each tensor is read and written once."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision
from vrtspike.deblurring.models.token_ops.launch import Launch

GATE: Launch = MappingProxyType({"BLOCK": 64, "BLOCK_H": 32, "num_warps": 4})


def triton_gate(hidden: Tensor) -> Tensor:
    """GELU(first half) * second half.

    Args:
        hidden: (rows, 2H), in the type of the products.

    Returns:
        (rows, H).
    """
    out: Tensor = _gate(hidden)
    return out


def triton_gate_backward(grad: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The gate's result again, (rows, H), and the gradient of ``hidden``, (rows, 2H)."""
    out = torch.empty_like(grad)
    return out, _launch_backward(grad, hidden, out)


def _grid(hidden: Tensor) -> tuple[int, int]:
    rows, width = hidden.shape
    return -(-rows // GATE["BLOCK"]), -(-width // 2 // GATE["BLOCK_H"])


@torch.library.custom_op("vrtspike::triton_gate", mutates_args=())
def _gate(hidden: Tensor) -> Tensor:
    from vrtspike.deblurring.models.token_ops.gate_kernels import gate_kernel

    hidden = hidden.contiguous()
    rows, width = hidden.shape
    out = hidden.new_empty(rows, width // 2)
    with on_device_of(hidden):
        gate_kernel[_grid(hidden)](
            hidden, out, rows, H=width // 2, PRECISION=precision(hidden.dtype), **GATE
        )
    return out


@_gate.register_fake
def _(hidden: Tensor) -> Tensor:
    return hidden.new_empty(hidden.shape[0], hidden.shape[1] // 2)


@torch.library.custom_op("vrtspike::triton_gate_backward", mutates_args=())
def _backward(grad: Tensor, hidden: Tensor) -> Tensor:
    return _launch_backward(grad, hidden, None)


@_backward.register_fake
def _(grad: Tensor, hidden: Tensor) -> Tensor:
    return torch.empty_like(hidden)


def _launch_backward(grad: Tensor, hidden: Tensor, out: Tensor | None) -> Tensor:
    """The gradient of ``hidden``; ``out`` is filled with the gate's result."""
    from vrtspike.deblurring.models.token_ops.gate_kernels import gate_gradient_kernel

    grad, hidden = grad.contiguous(), hidden.contiguous()
    grad_hidden = torch.empty_like(hidden)
    rows, width = hidden.shape
    with on_device_of(hidden):
        gate_gradient_kernel[_grid(hidden)](
            grad,
            hidden,
            grad if out is None else out,
            grad_hidden,
            rows,
            H=width // 2,
            AGAIN=out is not None,
            PRECISION=precision(hidden.dtype),
            **GATE,
        )
    return grad_hidden


def _save(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ANN401
    ctx.save_for_backward(*inputs)


def _grads(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ANN401
    gradient: Tensor = _backward(grad, *ctx.saved_tensors)
    return gradient


_gate.register_autograd(_grads, setup_context=_save)
