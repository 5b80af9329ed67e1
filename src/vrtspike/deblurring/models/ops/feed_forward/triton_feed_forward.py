"""Feed-forward layers with norm and residual by our own Triton kernels, for CUDA."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from vrtspike.deblurring.models.mixed_precision import product_over_rows
from vrtspike.deblurring.models.ops.launch import (
    Options,
    capability_of,
    has_products_from_shared_memory,
    launch,
    tile,
)
from vrtspike.deblurring.models.ops.token_layout import EPSILON, Sizes, width_with_one

# Registers and shared memory hold two programs at once: one computes while another loads.
_TWO_AT_ONCE = {"num_warps": 4, "num_stages": 1}
FORWARD: Sizes = MappingProxyType({"BLOCK": 64, "BLOCK_H": 64, **_TWO_AT_ONCE})
ROWS: Sizes = MappingProxyType({"BLOCK": 64, "BLOCK_H": 32, **_TWO_AT_ONCE})
_WARPS = {"num_warps": 8, "num_stages": 2}
# What fits into the shared memory and the registers of smaller GPUs.
FORWARD_SMALL: Sizes = MappingProxyType({"BLOCK": 128, "BLOCK_H": 32, **_WARPS})
ROWS_SMALL: Sizes = MappingProxyType({"BLOCK": 64, "BLOCK_H": 32, **_WARPS})
# Hidden channels come in multiples of the largest block of a loop over them.
HIDDEN = 64
# Hidden channels of a program that folds.
FOLD: Sizes = MappingProxyType({"BLOCK_H": 16, "num_warps": 4})

Layers = tuple[nn.Linear, nn.Linear | None, nn.Linear]
"""Gate, value (of a gated layer) and out."""


@torch.compiler.disable
def triton_feed_forward(
    x: Tensor, norm: nn.LayerNorm, layers: Layers, dtype: torch.dtype, keep: Tensor | None = None
) -> Tensor:
    """``x + keep * out(GELU(gate(norm(x))) * value(norm(x)))``.

    Args:
        x: (B, tokens, C).
        norm: layer norm over the channels with the default epsilon.
        layers: gate, value or None, and out, of C channels.
        dtype: type of the products.
        keep: (B,) float32, the factor of each sample's branch; it is not computed where that is
            0. None: 1 for all.

    Returns:
        The shape of ``x``, in the wider of its type and that of the products.
    """
    gate, value, last = layers
    second = (None, None) if value is None else (value.weight, value.bias)
    parameters = (gate.weight, gate.bias, *second, last.weight, last.bias)
    out: Tensor = _FeedForward.apply(x, keep, norm.weight, norm.bias, *parameters, dtype)
    return out


class _FeedForward(torch.autograd.Function):
    """Keeps the tokens, two numbers for each, and the folded weights."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:  # noqa: ANN401
        x, keep, scale, shift, w_gate, b_gate, w_value, b_value, w_out, b_out, dtype = inputs
        from vrtspike.deblurring.models.ops.feed_forward.feed_forward_kernels import forward_kernel

        x = x.contiguous()
        samples, length, _ = x.shape
        out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, dtype))
        moments = x.new_empty(samples, length, 2, dtype=torch.float32)
        gates = (w_gate, b_gate, w_value, b_value)
        folded = _folded(scale, shift, *gates, w_out, dtype)
        large = has_products_from_shared_memory(capability_of(x.device))
        sizes = FORWARD if large else FORWARD_SMALL
        grid = (-(-length // sizes["BLOCK"]), samples)
        factors = moments if keep is None else keep
        tensors = (x, factors, *_each(folded), b_out, out, moments)
        options = {**sizes, **_constants(x, w_gate, w_value, keep)}
        launch(forward_kernel, grid, *tensors, length, EPSILON=EPSILON, **options)
        ctx.save_for_backward(x, keep, scale, shift, w_gate, w_value, moments, folded)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, keep, scale, shift, w_gate, w_value, moments, folded = ctx.saved_tensors
        from vrtspike.deblurring.models.ops.feed_forward.feed_forward_kernels import rows_kernel

        (samples, length, channels), hidden = x.shape, len(w_gate)
        width, layers = width_with_one(channels), 1 if w_value is None else 2
        grad_x = torch.empty_like(x)
        normed, scaled, grad_hidden, products = (
            x.new_empty(samples, length, n, dtype=folded.dtype)
            for n in (width, channels, layers * hidden, hidden)
        )
        sizes = ROWS if has_products_from_shared_memory(capability_of(x.device)) else ROWS_SMALL
        grid = (-(-length // sizes["BLOCK"]), samples)
        by_rows = x.new_empty(grid[0] * samples, channels, dtype=torch.float32)
        factors = moments if keep is None else keep
        tensors = (x, grad.contiguous(), factors, moments, *_each(folded))
        results = (grad_x, normed, scaled, grad_hidden, products, by_rows)
        options = {**sizes, **_constants(x, w_gate, w_value, keep)}
        launch(rows_kernel, grid, *tensors, *results, length, WIDTH=width, **options)
        sums = product_over_rows(grad_hidden, normed, torch.float32)
        by_weight, by_bias = sums[:, :channels], sums[:, channels]
        # W (s x + t) + b = (W s) x + (W t + b): those of the folded weights, unfolded.
        weights = w_gate if w_value is None else torch.cat((w_gate, w_value))
        grad_scale = torch.einsum("hc,hc->c", weights.float(), by_weight)
        grad_shift = by_bias @ weights.float()
        by_weight = torch.addmm(by_weight * scale, by_bias[:, None], shift[None].float())
        pairs = zip(by_weight.split(hidden), by_bias.split(hidden), strict=True)
        first, *second = ((w, b) for w, b in pairs)
        w_out = product_over_rows(scaled, products, torch.float32)
        found = (*first, *(second[0] if second else (None, None)), w_out, by_rows.sum(0))
        return grad_x, None, grad_scale, grad_shift, *found, None


def _constants(x: Tensor, w_gate: Tensor, w_value: Tensor | None, keep: Tensor | None) -> Options:
    channels = x.shape[2]
    return {
        "C": channels,
        "BLOCK_C": tile(width_with_one(channels)),
        "H": len(w_gate),
        "GATED": w_value is not None,
        "KEEP": keep is not None,
    }


def _folded(
    scale: Tensor,
    shift: Tensor,
    w_gate: Tensor,
    b_gate: Tensor,
    w_value: Tensor | None,
    b_value: Tensor | None,
    w_out: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Weights as kernels take them, with biases and the norm's scale and shift in all but the last.

    Those of gate, of value if there is one, and the last: (2 or 3, rows, tile).
    """
    from vrtspike.deblurring.models.ops.feed_forward.feed_forward_kernels import fold_kernel

    hidden, channels = w_gate.shape
    value = (w_gate, b_gate) if w_value is None or b_value is None else (w_value, b_value)
    rows, layers = -(-hidden // HIDDEN) * HIDDEN, 2 if w_value is None else 3
    folded = w_gate.new_empty(layers, rows, tile(width_with_one(channels)), dtype=dtype)
    tensors = [t.contiguous() for t in (w_gate, b_gate, *value, w_out)]
    options = {"C": channels, "BLOCK_C": folded.shape[2], "H": hidden, **FOLD}
    grid = (rows // FOLD["BLOCK_H"],)
    gated = w_value is not None
    launch(fold_kernel, grid, *tensors, scale, shift, *_each(folded), GATED=gated, **options)
    return folded


def _each(folded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Those of :func:`_folded`; where there is no value kernels do not look at it."""
    return folded[0], folded[1], folded[-1]
