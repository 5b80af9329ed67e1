"""Feed-forward layers with norm and residual by our own Triton kernels, for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision, tile
from vrtspike.deblurring.models.layers import GEGLU, FeedForward
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops.launch import Launch, is_large, with_one
from vrtspike.deblurring.models.token_ops.pointwise import EPSILON
from vrtspike.deblurring.models.token_ops.weight_gradients import Product, summed

_WARPS = {"num_warps": 8, "num_stages": 2}
FORWARD: Launch = MappingProxyType({"BLOCK": 128, "BLOCK_H": 64, **_WARPS})
ROWS: Launch = MappingProxyType({"BLOCK": 128, "BLOCK_H": 32, **_WARPS})
# What fits into the shared memory and the registers of smaller GPUs.
FORWARD_SMALL: Launch = MappingProxyType({"BLOCK": 128, "BLOCK_H": 32, **_WARPS})
ROWS_SMALL: Launch = MappingProxyType({"BLOCK": 64, "BLOCK_H": 32, **_WARPS})
LAUNCHES = (FORWARD, ROWS, FORWARD_SMALL, ROWS_SMALL)
# Hidden channels come in multiples of the largest block of a loop over them.
HIDDEN = 64
# Hidden channels of a program that folds, channels and hidden channels of one that unfolds.
FOLD: Launch = MappingProxyType({"BLOCK_H": 16, "num_warps": 4})
UNFOLD: Launch = MappingProxyType({"BLOCK_C": 16, "BLOCK_H": 64, "num_warps": 4})


def triton_feed_forward(
    x: Tensor, norm: nn.LayerNorm, mlp: GEGLU | FeedForward, keep: Tensor | None = None
) -> Tensor:
    """``x + keep * mlp(norm(x))``; kept for the backward pass: ``x`` and two numbers a token.

    Args:
        x: (B, ..., C), contiguous.
        norm: layer norm over the channels with the default epsilon.
        mlp: the feed-forward layer, of C channels.
        keep: (B,) float32, the factor of each sample's branch; it is not computed where that is
            0. None: 1 for all.

    Returns:
        The shape of ``x``, in the wider of its type and that of the products.
    """
    gate, value, last = layers_of(mlp)
    out, _, _ = _forward(
        x.flatten(1, -2),
        keep,
        norm.weight,
        norm.bias,
        gate.weight,
        gate.bias,
        None if value is None else value.weight,
        None if value is None else value.bias,
        last.weight,
        last.bias,
        autocast_dtype(x),
    )
    return out.view(x.shape)


def layers_of(mlp: GEGLU | FeedForward) -> tuple[nn.Linear, nn.Linear | None, nn.Linear]:
    """The layers of gate, value (if it has one) and result."""
    if isinstance(mlp, GEGLU):
        return mlp.fc11, mlp.fc12, mlp.fc2
    return mlp.first, None, mlp.last


def forward_launch(device: torch.device, dtype: torch.dtype) -> Launch:
    """Of the kernels that make all hidden values of their tokens."""
    # Hidden values of float32 take twice the registers.
    return FORWARD if is_large(device) and dtype != torch.float32 else FORWARD_SMALL


def _constants(
    x: Tensor, hidden: int, gated: bool, keep: Tensor | None, dtype: torch.dtype
) -> dict[str, Any]:
    channels = x.shape[2]
    return {
        "C": channels,
        "BLOCK_C": tile(with_one(channels)),
        "H": hidden,
        "GATED": gated,
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
    w_value: Tensor | None,
    b_value: Tensor | None,
    w_out: Tensor,
    b_out: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, mean and reciprocal deviation of tokens (B, tokens, 2), and :func:`folded`."""
    from vrtspike.deblurring.models.token_ops.feed_forward_kernels import forward_kernel

    x = x.contiguous()
    samples, length, _ = x.shape
    out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, dtype))
    moments = x.new_empty(samples, length, 2, dtype=torch.float32)
    weights = folded(w_gate, b_gate, w_value, b_value, w_out, scale, shift, dtype)
    launch = forward_launch(x.device, dtype)
    with on_device_of(x):
        forward_kernel[(-(-length // launch["BLOCK"]), samples)](
            x,
            x if keep is None else keep,
            *each(weights),
            b_out,
            out,
            moments,
            length,
            EPSILON=EPSILON,
            **launch,
            **_constants(x, w_gate.shape[0], w_value is not None, keep, dtype),
        )
    return out, moments, weights


def folded(
    w_gate: Tensor,
    b_gate: Tensor,
    w_value: Tensor | None,
    b_value: Tensor | None,
    w_out: Tensor,
    scale: Tensor,
    shift: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Weights as kernels take them, with biases and the norm's scale and shift in all but the last.

    Those of gate, of value if there is one, and the last: (2 or 3, rows, tile).
    """
    from vrtspike.deblurring.models.token_ops.feed_forward_kernels import fold_kernel

    hidden, channels = w_gate.shape
    value = (w_gate, b_gate) if w_value is None or b_value is None else (w_value, b_value)
    given = [t.contiguous() for t in (w_gate, b_gate, *value, w_out)]
    laid = folded_like(w_gate, w_value, dtype)
    _, rows, columns = laid.shape
    with on_device_of(w_gate):
        fold_kernel[(rows // FOLD["BLOCK_H"],)](
            *given,
            scale,
            shift,
            *each(laid),
            C=channels,
            BLOCK_C=columns,
            H=hidden,
            GATED=w_value is not None,
            **FOLD,
        )
    return laid


def folded_like(w_gate: Tensor, w_value: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The shape of :func:`folded`."""
    hidden, channels = w_gate.shape
    rows, layers = -(-hidden // HIDDEN) * HIDDEN, 2 if w_value is None else 3
    return w_gate.new_empty(layers, rows, tile(with_one(channels)), dtype=dtype)


def each(weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Those of :func:`folded`; where there is no value kernels do not look at it."""
    return weights[0], weights[1], weights[-1]


@_forward.register_fake
def _(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    moments = x.new_empty(*x.shape[:2], 2, dtype=torch.float32)
    out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, rest[-1]))
    return out, moments, folded_like(rest[3], rest[5], rest[-1])


@torch.library.custom_op("vrtspike::triton_feed_forward_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    keep: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    w_gate: Tensor,
    w_value: Tensor | None,
    moments: Tensor,
    weights: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x; of gate and value, weights, then biases, and the last; of scale and shift."""
    from vrtspike.deblurring.models.token_ops.feed_forward_kernels import (
        rows_kernel,
        unfold_kernel,
    )

    x, grad = x.contiguous(), grad.contiguous()
    samples, length, channels = x.shape
    hidden, width = w_gate.shape[0], with_one(channels)
    gated = w_value is not None
    constants = {"WIDTH": width, **_constants(x, hidden, gated, keep, dtype)}
    grad_x = torch.empty_like(x)
    normed, scaled, grad_hidden, products = (
        x.new_empty(samples, length, n, dtype=dtype)
        for n in (width, channels, (1 + gated) * hidden, hidden)
    )
    launch = ROWS if is_large(x.device) else ROWS_SMALL
    grid = (-(-length // launch["BLOCK"]), samples)
    by_rows = x.new_empty(grid[0] * samples, channels, dtype=torch.float32)
    with on_device_of(x):
        rows_kernel[grid](
            x,
            grad,
            x if keep is None else keep,
            moments,
            *each(weights),
            grad_x,
            normed,
            scaled,
            grad_hidden,
            products,
            by_rows,
            length,
            **launch,
            **constants,
        )
        size = grad_hidden.shape[2] * (channels + 1)
        first = Product(grad_hidden, normed, length, 0, channels)
        last = Product(products, scaled, length, size, 1, hidden)
        sums = summed((first, last), by_rows, keep, channels, size + hidden * channels)
        norm = sums.new_empty(2 * channels)
        unfold_kernel[(-(-channels // UNFOLD["BLOCK_C"]),)](
            sums,
            w_gate.contiguous(),
            (w_gate if w_value is None else w_value).contiguous(),
            scale,
            shift,
            norm,
            C=channels,
            H=hidden,
            GATED=gated,
            **UNFOLD,
        )
    return grad_x, sums, norm


@_backward.register_fake
def _(grad: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    hidden, channels = rest[3].shape
    first = (1 if rest[4] is None else 2) * hidden * (channels + 1)
    sizes = (first + hidden * channels + channels, 2 * channels)
    sums, norm = (x.new_empty(size, dtype=torch.float32) for size in sizes)
    return torch.empty_like(x), sums, norm


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
    x, keep, scale, shift, w_gate, _, w_value, *_, ctx.dtype = inputs
    ctx.save_for_backward(x, keep, scale, shift, w_gate, w_value, *output[1:])
    ctx.set_materialize_grads(False)  # of the others, from which nothing learns


def feed_forward_gradients(
    grad: Tensor, saved: Sequence[Tensor | None], dtype: torch.dtype
) -> list[Tensor | None]:
    """Gradients of tokens, norm and layers from that of the result.

    Args:
        grad: (B, tokens, C).
        saved: tokens (B, tokens, C), factors, scale, shift, weights of gate and of value or None,
            the moments of the tokens, and :func:`folded`.
        dtype: type of the products.

    Returns:
        those of the tokens, scale, shift, weight and bias of gate, of value or None, of the last.
    """
    weight, has_value = saved[4], saved[5] is not None
    assert weight is not None
    hidden, channels = weight.shape
    x, sums, norm = _backward(grad, *saved, dtype)
    scale, shift = norm.split(channels)
    size, shape, layers = hidden * channels, (hidden, channels), 1 + has_value
    *first, w_out, b_out = sums.split((size,) * layers + (hidden,) * layers + (size, channels))
    weights, biases = first[:layers], first[layers:]
    value: list[Tensor | None] = [None, None]
    if has_value:
        value = [weights[1].view(shape), biases[1]]
    last = (w_out.view(channels, -1), b_out)
    return [x, scale, shift, weights[0].view(shape), biases[0], *value, *last]


def _grads(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    saved = ctx.saved_tensors  # a checkpoint gives them once
    x, *others = feed_forward_gradients(grad, saved, ctx.dtype)
    return x, None, *others, None


_forward.register_autograd(_grads, setup_context=_save)
