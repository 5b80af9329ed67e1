"""x + GEGLU(LN(x)) by our own Triton kernels, for CUDA."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision, tile
from vrtspike.deblurring.models.layers import GEGLU
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops.launch import (
    Launch,
    as_operands,
    is_large,
    shares,
    with_one,
)
from vrtspike.deblurring.models.token_ops.pointwise import EPSILON

_WARPS = {"num_warps": 8, "num_stages": 2}
FORWARD: Launch = MappingProxyType({"BLOCK": 128, "BLOCK_H": 32, **_WARPS})
ROWS: Launch = MappingProxyType({"BLOCK": 128, "BLOCK_H": 32, **_WARPS})
# What fits into the shared memory and the registers of smaller GPUs.
ROWS_SMALL: Launch = MappingProxyType({"BLOCK": 64, "BLOCK_H": 32, **_WARPS})
WEIGHTS: Launch = MappingProxyType({"BLOCK": 32, "BLOCK_H": 64, **_WARPS})


def triton_feed_forward(
    x: Tensor, norm: nn.LayerNorm, mlp: GEGLU, keep: Tensor | None = None
) -> Tensor:
    """``x + keep * mlp(norm(x))``; nothing is kept for the backward pass but ``x``.

    Args:
        x: (B, ..., C), contiguous.
        norm: layer norm over the channels with the default epsilon.
        mlp: the feed-forward layer, of C channels.
        keep: (B,) float32, the factor of each sample's branch; it is not computed where that is
            0. None: 1 for all.

    Returns:
        The shape of ``x``, in the wider of its type and that of the products.
    """
    gate, value, last = mlp.fc11, mlp.fc12, mlp.fc2
    out = _forward(
        x.flatten(1, -2),
        keep,
        norm.weight,
        norm.bias,
        gate.weight,
        gate.bias,
        value.weight,
        value.bias,
        last.weight,
        last.bias,
        autocast_dtype(x),
    )
    return out.view(x.shape)


def _constants(x: Tensor, hidden: int, keep: Tensor | None, dtype: torch.dtype) -> dict[str, Any]:
    channels = x.shape[2]
    return {
        "C": channels,
        "BLOCK_C": tile(with_one(channels)),
        "H": hidden,
        "KEEP": keep is not None,
        "PRECISION": precision(dtype),
    }


@torch.library.custom_op("vrtspike::triton_feed_forward", mutates_args=())
def _forward(
    x: Tensor,
    keep: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    w_gate: Tensor,
    b_gate: Tensor,
    w_value: Tensor,
    b_value: Tensor,
    w_out: Tensor,
    b_out: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    from vrtspike.deblurring.models.token_ops.feed_forward_kernels import forward_kernel

    x = x.contiguous()
    samples, length, _ = x.shape
    out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, dtype))
    gate, value, last = as_operands((w_gate, w_value, w_out), dtype)
    with on_device_of(x):
        forward_kernel[(-(-length // FORWARD["BLOCK"]), samples)](
            x,
            x if keep is None else keep,
            scale,
            shift,
            gate,
            b_gate,
            value,
            b_value,
            last,
            b_out,
            out,
            length,
            EPSILON=EPSILON,
            **FORWARD,
            **_constants(x, w_gate.shape[0], keep, dtype),
        )
    return out


@_forward.register_fake
def _(x: Tensor, *rest: Any) -> Tensor:  # noqa: ANN401
    return torch.empty_like(x, dtype=torch.promote_types(x.dtype, rest[-1]))


@torch.library.custom_op("vrtspike::triton_feed_forward_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    keep: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    w_gate: Tensor,
    b_gate: Tensor,
    w_value: Tensor,
    b_value: Tensor,
    w_out: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x; of scale, shift and the last bias; of the other weights, then biases."""
    from vrtspike.deblurring.models.token_ops.feed_forward_kernels import (
        rows_kernel,
        weights_kernel,
    )

    x, grad = x.contiguous(), grad.contiguous()
    samples, length, channels = x.shape
    hidden, width = w_gate.shape[0], with_one(channels)
    constants = {"WIDTH": width, **_constants(x, hidden, keep, dtype)}
    gate, value, last = as_operands((w_gate, w_value, w_out), dtype)
    factors = x if keep is None else keep
    weights = (gate, b_gate, value, b_value, last)
    grad_x = torch.empty_like(x)
    normed = x.new_empty(samples, length, width, dtype=dtype)
    scaled = x.new_empty(samples, length, channels, dtype=dtype)
    launch = ROWS if is_large(x.device) else ROWS_SMALL
    grid = (-(-length // launch["BLOCK"]), samples)
    by_rows = x.new_empty(grid[0] * samples, 3 * channels, dtype=torch.float32)
    tiles = -(-hidden // WEIGHTS["BLOCK_H"])
    parts = shares(x.device, tiles, -(-length // WEIGHTS["BLOCK"]))
    by_part = by_rows.new_empty(parts, 3 * hidden * channels + 2 * hidden)
    with on_device_of(x):
        rows_kernel[grid](
            x,
            grad,
            factors,
            scale,
            shift,
            *weights,
            grad_x,
            normed,
            scaled,
            by_rows,
            length,
            EPSILON=EPSILON,
            **launch,
            **constants,
        )
        weights_kernel[(tiles, parts)](
            normed,
            scaled,
            factors,
            *weights,
            by_part,
            samples,
            length,
            **WEIGHTS,
            **constants,
        )
    return grad_x, by_rows.sum(0), by_part.sum(0)


@_backward.register_fake
def _(grad: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    hidden, channels = rest[3].shape
    sizes = (3 * channels, 3 * hidden * channels + 2 * hidden)
    first, second = (x.new_empty(size, dtype=torch.float32) for size in sizes)
    return torch.empty_like(x), first, second


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    *tensors, _, ctx.dtype = inputs
    ctx.save_for_backward(*tensors)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    saved = ctx.saved_tensors  # a checkpoint gives them once
    hidden, channels = saved[4].shape
    x, by_rows, by_part = _backward(grad, *saved, ctx.dtype)
    scale, shift, b_out = by_rows.split(channels)
    size = hidden * channels
    w_gate, w_value, w_out, b_gate, b_value = by_part.split((size, size, size, hidden, hidden))
    first = (hidden, channels)
    weights = (w_gate.view(first), b_gate, w_value.view(first), b_value, w_out.view(channels, -1))
    return x, None, scale, shift, *weights, b_out, None


_forward.register_autograd(_grads, setup_context=_save)
